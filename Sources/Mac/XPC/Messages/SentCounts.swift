import Synchronization

/// The numbers of messages and replies that one end of a session has sent. The other end puts them in order with these
/// numbers. Both overflow.
final class SentCounts: Sendable {
    private let sentMessages = Atomic<UInt32>(0)
    private let sentReplies = Atomic<UInt32>(0)

    var messages: UInt32 { sentMessages.load(ordering: .acquiring) }
    var replies: UInt32 { sentReplies.load(ordering: .acquiring) }

    /// Counts a message, before it is sent.
    func addMessage() { sentMessages.wrappingAdd(1, ordering: .acquiringAndReleasing) }
    /// Counts a reply, after it was sent.
    func addReply() { sentReplies.wrappingAdd(1, ordering: .acquiringAndReleasing) }
}
