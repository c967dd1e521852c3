/// A request to a ``LocalMessagePort``.
public struct MessagePortRequest: Sendable {
    /// The message.
    public let message: MachPort.Message

    /// The right to reply; nil when the sender wants none. Released unused, it tells the asker that no reply follows.
    public let replyRight: ReplyRight?

    init(_ message: ReceivedMessage) {
        self.message = MachPort.Message(message)
        replyRight = ReplyRight(message)
    }

    /// The sender's number for the subject of the request.
    public var id: UInt32 { message.id }

    /// The data; nil when the request has no data, which differs from data of no bytes.
    public var data: [UInt8]? { message.data }
}

/// Messages of message ports have one component of bytes, or none.
extension MachPort.Message {
    init(id: UInt32 = 0, data: [UInt8]?, replyPort: MachPort.SendRight? = nil) {
        self.init(id: id, data.map { [.bytes($0)] } ?? [], replyPort: replyPort)
    }

    var data: [UInt8]? { if case .bytes(let bytes)? = components.first { bytes } else { nil } }
}
