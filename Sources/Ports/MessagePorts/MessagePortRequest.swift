/// A request that has come to a ``LocalMessagePort``.
public struct MessagePortRequest: Sendable {
    /// What was sent.
    public let message: MachPort.Message

    /// The right to answer; nil when the sender wants no reply.
    /// When the last copy of it is let go of unused, the asker is told that there will be no answer.
    public let replyRight: ReplyRight?

    init(_ frame: ReceivedFrame) {
        message = MachPort.Message(frame)
        replyRight = ReplyRight(frame)
    }

    /// The sender's number for what the request is about.
    public var id: UInt32 { message.id }

    /// The data; nil when the request has none, which is not the same as no bytes.
    public var data: [UInt8]? { message.withBytes { $0.withUnsafeBytes { Array($0) } } }
}
