/// A request to a ``LocalMessagePort``.
public struct MessagePortRequest: Sendable {
    /// The message.
    public let message: MachPort.Message

    /// The right to reply; nil when the sender wants no reply. When the right is released unused, the asker learns that
    /// no reply follows.
    public let replyRight: ReplyRight?

    /// Takes a message as a request. Refuses it, and returns nil, when the port takes no more requests.
    init?(_ message: ReceivedMessage, _ requests: RequestLedger) {
        if message.header.kind == .request, let asker = message.replyChannel {
            let header = message.header
            guard let request = requests.begin(asker, number: header.request, subject: header.id) else {
                message.refuse()
                return nil
            }
            replyRight = ReplyRight(request, requests)
        } else {
            if requests.isFinishing { return nil }
            replyRight = nil
        }
        self.message = MachPort.Message(message)
    }

    /// Makes a request of a message that has come by another transport, which sends the reply itself.
    package init(_ message: MachPort.Message) { (self.message, replyRight) = (message, nil) }

    static func handler(
        _ handler: (@Sendable (MessagePortRequest) -> Void)?, _ requests: RequestLedger
    ) -> ReceivedMessage.Handler? {
        guard let handler else { return nil }
        return { message in
            if let request = MessagePortRequest(message, requests) { handler(request) }
        }
    }

    /// The sender's number for the subject of the request.
    public var id: UInt32 { message.id }

    /// The data; nil when the request has none. Nil differs from data of no bytes.
    public var data: [UInt8]? { message.data }

    /// Whether the asker has given up: see ``ReplyRight/isCancelled``. False when the sender wants no reply.
    public var isCancelled: Bool { replyRight?.isCancelled ?? false }

    /// Calls a handler when the asker gives up: see ``ReplyRight/onCancel(_:)``. Nothing happens when the sender wants
    /// no reply.
    public func onCancel(_ handler: @escaping @Sendable () -> Void) { replyRight?.onCancel(handler) }
}

/// Messages of message ports have one component of bytes, or none.
extension MachPort.Message {
    package init(id: UInt32 = 0, data: [UInt8]?, replyPort: MachPort.SendRight? = nil) {
        self.init(id: id, data.map { [.bytes($0)] } ?? [], replyPort: replyPort)
    }

    package var data: [UInt8]? { if case .bytes(let bytes)? = components.first { bytes } else { nil } }
}
