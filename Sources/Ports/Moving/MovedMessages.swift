/// The messages of a port that have come to its next owner, before it has the port. They are bounded, because no process
/// may grow another one without bound.
struct MovedMessages {
    /// The most messages that a port takes along.
    static let most = 1 << 20
    /// The most bytes of messages that a port takes along.
    static let mostBytes = 1 << 30

    private(set) var all: [LocalMessage] = []
    private var byteCount = 0
    private let (most, mostBytes): (Int, Int)

    init(most: Int = Self.most, mostBytes: Int = Self.mostBytes) { (self.most, self.mostBytes) = (most, mostBytes) }

    /// - Parameter byteCount: The size of what has come with the message.
    /// - Throws: ``PortError/unavailable(reason:)`` when there are too many.
    mutating func add(_ message: LocalMessage, byteCount: Int) throws(PortError) {
        self.byteCount += byteCount
        guard all.count < most, self.byteCount <= mostBytes else {
            throw .unavailable(
                reason: "more than \(most) messages or \(mostBytes) bytes wait at it: let its owner handle some first")
        }
        all.append(message)
    }
}
