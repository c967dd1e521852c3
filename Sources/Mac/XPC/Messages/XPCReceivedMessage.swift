import Dispatch
// Decodes `Data` at once.
import FoundationCoding
import Ports
import TypedPorts

/// A message from the other end of a session.
///
/// The sender of a message that expects a reply learns that none follows when the last copy of the message is released
/// without a reply.
public struct XPCReceivedMessage: Sendable {
    let message: MachPort.Message
    private let replyRight: ReplyRight?
    /// The counts of this end of the session; nil for the reply to a message of this process.
    private let counts: SentCounts?

    /// Whether the sender waits for the reply in `sendSync`.
    public let isSync: Bool

    init(_ request: MessagePortRequest, counts: SentCounts, isSync: Bool) {
        message = request.message
        replyRight = request.replyRight
        self.counts = counts
        self.isSync = isSync
    }

    /// The reply to a message of this process.
    init(reply: MachPort.Message) {
        message = reply
        (replyRight, counts) = (nil, nil)
        isSync = false
    }

    /// Whether the sender expects a reply.
    public var expectsReply: Bool { replyRight != nil }

    /// Decodes the message.
    /// - Throws: `DecodingError`, and what the type's own `init(from:)` throws.
    public func decode<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
        try CBORCoder().decode(type, from: message)
    }

    /// Sends the reply, and does not wait. Any thread may reply, also after the handler has returned nil. Nothing happens
    /// when the sender expects no reply. The first reply counts. When the value cannot be encoded, or is too large, the
    /// sender gets an error.
    public func reply<Message: Encodable>(_ value: Message) {
        guard let replyRight, let counts else { return }
        let count = counts.messages
        let reply: MachPort.Message
        do { reply = try CBORCoder().message(id: count, value) } catch {
            return fail("the reply cannot be encoded: \(error)")
        }
        do throws(PortError) {
            try replyRight.reply(with: reply)
            counts.addReply()
        } catch {
            replyRight.noteUnsent(error)
        }
    }

    /// Runs `continuation`, which replies, on another queue. The handler returns the result of this method.
    /// - Returns: Nil.
    @preconcurrency
    public func handoffReply(
        to queue: DispatchQueue, _ continuation: @escaping @Sendable () -> Void
    ) -> (any Encodable)? {
        // The continuation may not refer to the message, whose sender must not learn meanwhile that no reply follows.
        queue.async { withExtendedLifetime(self) { continuation() } }
        return nil
    }

    /// The process that sent the message, in the kernel's words. Not in Apple's module.
    public var sender: SenderCredentials? { message.sender }

    /// Sends an error in place of the reply.
    func fail(_ text: String) {
        guard let replyRight, let counts else { return }
        do throws(PortError) {
            try replyRight.fail(with: RequestFailure(text))
            counts.addReply()
        } catch {
            replyRight.noteUnsent(error)
        }
    }
}
