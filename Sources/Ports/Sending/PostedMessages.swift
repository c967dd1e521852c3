import Synchronization

/// The messages to one port that wait for room without a sender: replies.
struct PostedMessages {
    private(set) var count = 0
    private var bytes = 0

    /// The number of messages of any size that may wait.
    private static let most = 100
    /// The number of further messages that may wait at all channels of a runtime, while a channel's messages are small
    /// together. They cost the housekeeping thread work, all at once when they expire.
    private static let mostExtra = 4000

    /// - Parameter extra: The runtime's count of messages beyond ``most``.
    mutating func add(_ size: Int, _ extra: borrowing Atomic<Int>) -> Bool {
        if count >= Self.most {
            guard bytes + size <= 16 << 20 else { return false }
            guard extra.add(1, ordering: .relaxed).newValue <= Self.mostExtra else {
                extra.subtract(1, ordering: .relaxed)
                return false
            }
        }
        (count, bytes) = (count + 1, bytes + size)
        return true
    }

    mutating func remove(_ size: Int, _ extra: borrowing Atomic<Int>) {
        if count > Self.most { extra.subtract(1, ordering: .relaxed) }
        (count, bytes) = (count - 1, bytes - size)
    }
}
