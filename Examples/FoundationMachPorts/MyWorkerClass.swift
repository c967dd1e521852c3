import DarwinNames
import Foundation
import FoundationPorts

/// Lives on a thread of its own, and handles what main sends to its port.
final class MyWorkerClass: NSObject, PortDelegate {
    private var remotePort: Port?
    private var shouldExit = false

    class func launchThread(withPort inData: Any) {
        autoreleasepool {
            // Set up the connection between this thread and the main thread.
            guard let distantPort = inData as? Port else { return }
            let workerObj = MyWorkerClass()
            workerObj.sendCheckinMessage(distantPort)
            // Let the run loop process things.
            repeat {
                _ = RunLoop.current.run(mode: .default, before: .distantFuture)
            } while !workerObj.shouldExit
        }
    }

    private func sendCheckinMessage(_ outPort: Port) {
        print("Worker: I make a port of my own, and check in with it.")
        // Retain and save the remote port for future use.
        remotePort = outPort
        // Create and configure the worker thread port.
        let myPort = NSMachPort()
        myPort.setDelegate(self)
        RunLoop.current.add(myPort, forMode: .default)
        // Create the check-in message.
        let messageObj = PortMessage(sendPort: outPort, receivePort: myPort, components: nil)
        // Finish configuring the message and send it immediately.
        messageObj.msgid = kCheckinMessage
        _ = messageObj.send(before: Date())
    }

    func handle(_ message: PortMessage) {
        switch message.msgid {
        case 1:
            guard let data = message.components?.first as? Data else { return }
            print("Worker: message 1: I am to square \(data[0]).")
            let answer = PortMessage(
                sendPort: remotePort, receivePort: message.receivePort, components: [Data(data.map { $0 * $0 })])
            answer.msgid = 2
            _ = answer.send(before: Date(timeIntervalSinceNow: 1))
        case 3:
            print("Worker: message 3: I am to exit.")
            shouldExit = true
            message.receivePort?.invalidate()
        default:
            print("Worker: I do not know message \(message.msgid).")
        }
    }
}
