import Foundation
import FoundationPorts

/// The id of the message that a worker checks in with.
let kCheckinMessage: UInt32 = 100

/// Lives on the main thread, and handles what comes to its port.
final class Launcher: NSObject, PortDelegate, @unchecked Sendable {
    // Sound: the main thread alone uses it.
    private(set) var isDone = false
    private var distantPort: Port?
    private var observer: (any NSObjectProtocol)?

    func launchThread() {
        let myPort = NSMachPort()
        // This class handles incoming port messages.
        myPort.setDelegate(self)
        RunLoop.current.add(myPort, forMode: .default)
        // On macOS: Thread.detachNewThreadSelector(#selector(…), toTarget: MyWorkerClass.self, with: myPort)
        Thread.detachNewThread { MyWorkerClass.launchThread(withPort: myPort) }
    }

    func handle(_ portMessage: PortMessage) {
        switch portMessage.msgid {
        case kCheckinMessage:
            print("Main: message 100: a worker has checked in. I keep its port, and give it something to do.")
            storeDistantPort(portMessage.sendPort)
        case 2:
            guard let answer = portMessage.components?.first as? Data else { return }
            print("Main: message 2: the answer is \(answer[0]). I tell the worker to exit.")
            send(3, Data())
        default:
            print("Main: I do not know message \(portMessage.msgid).")
        }
    }

    private func storeDistantPort(_ port: Port?) {
        distantPort = port
        observer = NotificationCenter.default.addObserver(
            forName: Port.didBecomeInvalidNotification, object: port, queue: .main
        ) { _ in
            print("Main: the worker's port is invalid, so I stop.")
            self.isDone = true
        }
        send(1, Data([12]))
    }

    private func send(_ id: UInt32, _ data: Data) {
        let message = PortMessage(sendPort: distantPort, receivePort: nil, components: [data])
        message.msgid = id
        if !message.send(before: Date(timeIntervalSinceNow: 1)) { print("Main: message \(id) was not sent.") }
    }
}
