import Synchronization

/// The messages to one port that wait for room without a sender: replies.
struct PostedMessages {
    private(set) var count = 0
    private var bytes = 0
    private var descriptors = 0

    /// The number of messages of any size that may wait.
    private static let most = 100
    /// The number of further messages that may wait at all channels of a runtime, while a channel's messages are small
    /// together. They cost the housekeeping thread work, all at once when they expire.
    private static let mostExtra = 4000
    /// The number of descriptors in those messages, beyond one message.
    private static let mostDescriptors = 256

    /// - Parameter extra: The runtime's count of messages beyond ``most``.
    mutating func add(_ size: Int, descriptors: Int = 0, _ extra: borrowing Atomic<Int>) -> Bool {
        if self.descriptors > 0, self.descriptors + descriptors > Self.mostDescriptors { return false }
        if count >= Self.most {
            guard bytes + size <= 16 << 20 else { return false }
            guard extra.add(1, ordering: .relaxed).newValue <= Self.mostExtra else {
                extra.subtract(1, ordering: .relaxed)
                return false
            }
        }
        (count, bytes, self.descriptors) = (count + 1, bytes + size, self.descriptors + descriptors)
        return true
    }

    mutating func remove(_ size: Int, descriptors: Int = 0, _ extra: borrowing Atomic<Int>) {
        if count > Self.most { extra.subtract(1, ordering: .relaxed) }
        (count, bytes, self.descriptors) = (count - 1, bytes - size, self.descriptors - descriptors)
    }
}
