import Foundation
import FoundationPorts

// What Swift 5 lets a program do, and Swift 6 does not.

private var received: [UInt32] = []
private var thePort: Port!

private class Delegate: NSObject, PortDelegate {
    static let shared = Delegate()

    func handle(_ message: PortMessage) { received.append(message.msgid) }
}

/// The ids of messages that another thread has sent to a global port.
public func globals() -> [UInt32] {
    thePort = NSMachPort()
    thePort.setDelegate(Delegate.shared)
    RunLoop.current.add(thePort, forMode: RunLoop.Mode("a mode of its own"))
    Thread {
        for id in 1...3 {
            let message = PortMessage(sendPort: thePort, receivePort: nil, components: [])
            message.msgid = UInt32(id)
            if !message.send(before: Date(timeIntervalSinceNow: 1)) { received.append(0) }
        }
    }.start()
    while received.count < 3, RunLoop.current.run(mode: RunLoop.Mode("a mode of its own"), before: .distantFuture) {}
    thePort.invalidate()
    return received
}
