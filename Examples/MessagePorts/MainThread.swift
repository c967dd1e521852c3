import Ports
import RunLoops
import Synchronization

/// The ids of the messages between the two.
enum MessageID {
    static let checkIn: UInt32 = 100
    static let reverse: UInt32 = 1
    static let exit: UInt32 = 2
}

/// Lives on the main thread: it handles what comes to the main thread's port, and talks to the workers.
final class MainThread: Sendable {
    /// The ports of those who have checked in, by name.
    private let workers = Mutex<[String: RemoteMessagePort]>([:])

    /// The main thread's port's handler.
    func respond(to id: UInt32, _ data: [UInt8]?) -> [UInt8]? {
        guard id == MessageID.checkIn, let data else {
            print("Main: I do not know message \(id).")
            return nil
        }
        do {
            try store(String(decoding: data, as: UTF8.self))
        } catch {
            print("Main: \(error)")
            ThreadRunLoop.main.stop()
        }
        return nil
    }

    private func store(_ name: String) throws(PortError) {
        print("Main: a worker has checked in, with its port's name. I find the port, and keep it.")
        let worker = try RemoteMessagePort(name: name)
        workers.withLock { $0[name] = worker }
        worker.onInvalidation {
            try? ThreadRunLoop.main.perform {
                print("Main: the worker's port is invalid, so I stop my loop.")
                ThreadRunLoop.main.stop()
            }
        }
        // Not now: whoever checks in need not wait for it.
        try? ThreadRunLoop.main.perform { self.talk(to: worker) }
    }

    private func talk(to worker: RemoteMessagePort) {
        do {
            print("Main: I ask the worker for “olleh” in reverse, and wait for its reply.")
            let reply = try worker.request(id: MessageID.reverse, Array("olleh".utf8))
            print("Main: it has replied “\(String(decoding: reply ?? [], as: UTF8.self))”. I tell it to exit.")
            try worker.send(id: MessageID.exit)
        } catch {
            print("Main: \(error)")
            ThreadRunLoop.main.stop()
        }
    }
}
