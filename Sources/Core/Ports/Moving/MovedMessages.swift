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
    /// - Throws: ``PortError/cannotMove(reason:)`` when there are too many.
    mutating func add(_ message: LocalMessage, byteCount: Int) throws(PortError) {
        self.byteCount += byteCount
        guard all.count < most, self.byteCount <= mostBytes else { throw Self.tooMany(most, mostBytes) }
        all.append(message)
    }

    /// - Throws: ``PortError/cannotMove(reason:)`` when the messages are too many for the next owner.
    static func check(_ messages: [LocalMessage]) throws(PortError) {
        guard messages.count <= most, messages.reduce(0, { $0 + Int($1.size) }) <= mostBytes else {
            throw tooMany(most, mostBytes)
        }
    }

    private static func tooMany(_ most: Int, _ mostBytes: Int) -> PortError {
        .cannotMove(
            reason: "more than \(most) messages or \(mostBytes) bytes wait at it: let its owner handle some first")
    }
}
