import Ports
import RunLoops
import Synchronization

/// Lives on a thread of its own, and handles what main sends to its port.
final class Worker: MachPort.Delegate, Sendable {
    /// Main's port.
    private let remotePort: MachPort.SendRight
    private let mustExit = Atomic(false)

    init(_ remotePort: MachPort.SendRight) { self.remotePort = remotePort }

    /// What the thread does.
    func main() {
        do {
            try checkIn()
            repeat {
                _ = try ThreadRunLoop.current.run(mode: .default, before: .distantFuture)
            } while !mustExit.load(ordering: .acquiring)
        } catch {
            print("Worker: \(error)")
            ThreadRunLoop.main.stop()
        }
    }

    /// Makes a port of its own, which its loop keeps, and tells main.
    private func checkIn() throws(PortError) {
        print("Worker: I make a port of my own, and check in with it.")
        let myPort = try MachPort()
        myPort.delegate = self
        try myPort.schedule(in: .current)
        let message = MachPort.Message(id: MessageID.checkIn, replyPort: myPort.sendRight)
        try remotePort.send(message, before: .now + .seconds(1))
    }

    func handle(_ message: MachPort.Message, of port: MachPort) {
        switch message.id {
        case MessageID.square:
            guard case .bytes(let bytes)? = message.components.first else { return }
            print("Worker: message 1: I am to square \(bytes[0]).")
            try? remotePort.send(
                MachPort.Message(id: MessageID.answer, [.bytes(bytes.map { $0 * $0 })]), before: .now + .seconds(1))
        case MessageID.exit:
            print("Worker: message 3: I am to exit.")
            mustExit.store(true, ordering: .releasing)
            port.invalidate()
        default:
            print("Worker: I do not know message \(message.id).")
        }
    }
}
