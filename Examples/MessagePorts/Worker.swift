import Ports
import RunLoops

/// What a worker's thread does: it knows the name of main's port, and nothing else.
func serve(mainPortName: String) {
    do {
        print("Worker: I find main's port by its name.")
        let mainPort = try RemoteMessagePort(name: mainPortName)

        print("Worker: I make a port with a name of my own, and check in with the name.")
        let name = mainPortName + ".worker"
        let port = try LocalMessagePort(name: name, handler: process)
        try port.schedule(in: .current)
        try mainPort.send(id: MessageID.checkIn, Array(name.utf8))

        try ThreadRunLoop.current.run()
        print("Worker: I end my port.")
        port.invalidate()
    } catch {
        print("Worker: \(error)")
        ThreadRunLoop.main.stop()
    }
}

/// The worker's port's handler. What it returns is the reply.
private func process(id: UInt32, data: [UInt8]?) -> [UInt8]? {
    switch id {
    case MessageID.reverse:
        print("Worker: I am asked to reverse \(data?.count ?? 0) bytes.")
        return data?.reversed()
    case MessageID.exit:
        print("Worker: I am to exit.")
        ThreadRunLoop.current.stop()
        return nil
    default:
        print("Worker: I do not know message \(id).")
        return nil
    }
}
