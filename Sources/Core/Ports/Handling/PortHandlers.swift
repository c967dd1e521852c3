import CRunLoopShims

/// The handlers of a port's messages. A struct, because a function as the value of a generic type is wrapped again at
/// each access.
struct PortHandlers: Sendable {
    var message: ReceivedMessage.Handler?
    /// Makes the handler of a delegate; nil when the delegate is gone.
    var ofDelegate: (@Sendable () -> ReceivedMessage.Handler?)?
    /// Counts the changes.
    var generation = 0

    var isEmpty: Bool { message == nil && ofDelegate == nil }

    /// Calls the handler of messages. If nobody has retained the message, it goes to `used`.
    func handle(_ local: consuming LocalMessage, _ used: inout LocalQueue.Batch) {
        let depth: UnsafeMutablePointer<Int32> = crl_callout_depth()
        depth.pointee += 1
        message?(.local(copy local))
        depth.pointee -= 1
        if local.empty() { used.prepend(local) }
    }

    func handle(_ frame: ReceivedFrame) {
        crl_callout_depth().pointee += 1
        message?(.frame(frame))
        crl_callout_depth().pointee -= 1
    }
}

/// A taken message, local or a frame, and its handler. A struct, because a function in a tuple is wrapped again for
/// each message.
struct Delivery: ~Copyable {
    var local: LocalMessage?
    var frame: ReceivedFrame?
    let handler: ReceivedMessage.Handler?
    /// Whether all other takers must be told before this message is handled.
    let isFirst: Bool

    var message: ReceivedMessage? { local.map(ReceivedMessage.local) ?? frame.map(ReceivedMessage.frame) }

    /// Calls the handler. If nobody has retained the message, it goes to `used`.
    mutating func handle(_ used: inout LocalQueue.Batch, _ inHand: borrowing MessageInHand) {
        let handlers = PortHandlers(message: handler)
        if let local = local.take() {
            inHand.note(local)
            handlers.handle(local, &used)
        }
        if let frame { inHand.show(frame) { handlers.handle(frame) } }
    }
}
