import CoreFoundationPorts
import Foundation
import Ports

/// The object of a port and its delegate, for one message. Without a delegate, the message is dropped.
struct MessageTarget: @unchecked Sendable {
    // Foundation's protocol is not Sendable: the user chooses the loops, and so the threads, that call the delegate.
    var port: SendRightPort?
    let delegate: (any PortDelegate)?

    func handle(_ message: MachPort.Message, _ replyRight: ReplyRight?) {
        if let port, let delegate { delegate.handle(PortMessage(message, replyRight, to: port)) }
    }
}

/// The right to receive of a Foundation port: a `MachPort` or a `LocalMessagePort`.
protocol ReceivingEnd: AnyObject, Sendable {
    var machPort: MachPort { get }
    var isValid: Bool { get }
    func invalidate()
    func onInvalidation(_ handler: @escaping @Sendable () -> Void)
    /// Asks `current` for the target of each message.
    func setTarget(_ current: @escaping @Sendable () -> MessageTarget)
    func makeSource(atMost limit: Int) throws(PortError) -> RunLoopPortSource
}

extension MachPort: ReceivingEnd {
    var machPort: MachPort { self }

    func setTarget(_ current: @escaping @Sendable () -> MessageTarget) {
        setHandler(ofDelegate: { () -> Handler? in
            let target = current()
            return { target.handle($0, nil) }
        })
    }

    func makeSource(atMost limit: Int) throws(PortError) -> RunLoopPortSource {
        RunLoopPortSource(try PortDescriptor(self), atMost: limit)
    }
}

extension LocalMessagePort: ReceivingEnd {
    var machPort: MachPort { port }

    func setTarget(_ current: @escaping @Sendable () -> MessageTarget) {
        setHandler(ofDelegate: { () -> RequestHandler? in
            let target = current()
            return { target.handle($0.message, $0.replyRight) }
        })
    }

    func makeSource(atMost limit: Int) throws(PortError) -> RunLoopPortSource {
        RunLoopPortSource(try PortDescriptor(self), atMost: limit)
    }
}
