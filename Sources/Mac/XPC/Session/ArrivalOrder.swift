/// Puts what has come from the other end in the order in which the other end has sent it.
///
/// Messages come to the session's own port, and replies to the port for all replies of the process. So each overtakes the
/// other. A reply tells how many messages its sender had sent before it, and a message tells how many replies. An
/// arrival that is too early waits here for the others.
struct ArrivalOrder<Content: Sendable> {
    /// Something for the session's queue.
    enum Item {
        case message(Content)
        /// Calls the handler of a reply, or of an error in its place.
        case outcome(@Sendable () -> Void)
    }

    private struct Message {
        let content: Content
        /// The number of replies that were sent before.
        let replies: UInt32
    }

    private struct Outcome {
        let handler: @Sendable () -> Void
        /// The number of messages that were sent before; nil for an error, which waits for nothing.
        let messages: UInt32?
    }

    /// The most messages that wait for a reply: its sender may be mistaken, or malicious.
    static var mostMessages: Int { 1000 }

    private var messages: [Message] = []
    private var outcomes: [Outcome] = []
    /// The messages that ``next(openRequests:)`` has returned, and the replies that have come. Both counts overflow.
    private var taken: UInt32 = 0
    private var replies: UInt32 = 0
    /// Whether nothing waits for anything any more, because the session has ended.
    var isOver = false

    var isEmpty: Bool { messages.isEmpty && outcomes.isEmpty }

    /// - Parameter replies: The number of replies that were sent before the message.
    mutating func add(_ content: Content, after replies: UInt32) {
        messages.append(Message(content: content, replies: replies))
    }

    /// Adds the handler of a request that has its outcome.
    /// - Parameter messages: The number of messages that were sent before the reply; nil for an error.
    mutating func add(after messages: UInt32?, _ handler: @escaping @Sendable () -> Void) {
        outcomes.append(Outcome(handler: handler, messages: messages))
    }

    /// Notes a reply, whose handler was added or needs no queue.
    mutating func noteReply() { replies &+= 1 }

    /// The next item, unless it has to wait. Any order would do for items of which neither knows the other.
    /// - Parameter openRequests: The number of requests that have no outcome. Without any, no reply can come.
    mutating func next(openRequests: Int) -> Item? {
        if let index = outcomes.firstIndex(where: { !waits($0) }) {
            return .outcome(outcomes.remove(at: index).handler)
        }
        guard let first = messages.first, !waits(first, openRequests) else { return nil }
        messages.removeFirst()
        taken &+= 1
        return .message(first.content)
    }

    private func waits(_ outcome: Outcome) -> Bool {
        guard let messages = outcome.messages, !isOver else { return false }
        return Self.isLater(messages, than: taken)
    }

    private func waits(_ message: Message, _ openRequests: Int) -> Bool {
        !isOver && openRequests > 0 && messages.count <= Self.mostMessages
            && Self.isLater(message.replies, than: replies)
    }

    private static func isLater(_ count: UInt32, than other: UInt32) -> Bool {
        Int32(bitPattern: count &- other) > 0
    }
}
