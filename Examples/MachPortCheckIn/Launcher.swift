import Ports
import RunLoops
import Synchronization

/// The ids of the messages between the two.
enum MessageID {
    static let checkIn: UInt32 = 100
    static let square: UInt32 = 1
    static let answer: UInt32 = 2
    static let exit: UInt32 = 3
}

/// Lives on the main thread, and handles what comes to its port.
final class Launcher: MachPort.Delegate, Sendable {
    /// The worker's port, once it has checked in.
    private let distantPort = Mutex<MachPort.SendRight?>(nil)

    func handle(_ message: MachPort.Message, of port: MachPort) {
        do {
            switch message.id {
            case MessageID.checkIn: try store(message.replyPort)
            case MessageID.answer: try accept(message)
            default: print("Main: I do not know message \(message.id).")
            }
        } catch {
            print("Main: \(error)")
            ThreadRunLoop.main.stop()
        }
    }

    private func store(_ worker: MachPort.SendRight?) throws(PortError) {
        guard let worker else { return }
        print("Main: message 100: a worker has checked in. I keep its port, and give it something to do.")
        distantPort.withLock { $0 = worker }
        worker.onInvalidation {
            try? ThreadRunLoop.main.perform {
                print("Main: the worker's port is invalid, so I stop my loop.")
                ThreadRunLoop.main.stop()
            }
        }
        try worker.send(MachPort.Message(id: MessageID.square, [.bytes([12])]), before: .now + .seconds(1))
    }

    private func accept(_ message: MachPort.Message) throws(PortError) {
        guard case .bytes(let answer)? = message.components.first else { return }
        print("Main: message 2: the answer is \(answer[0]). I tell the worker to exit.")
        try distantPort.withLock { $0 }?.send(MachPort.Message(id: MessageID.exit), before: .now + .seconds(1))
    }
}
