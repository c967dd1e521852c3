import Ports

/// The messages of one end of a session that wait to be sent, in their order: until the listener has accepted the
/// session, and while the other end has no room.
struct Outbox: Sendable {
    /// A message that waits.
    struct Entry: Sendable {
        let message: MachPort.Message
        /// The number of a request; nil for a message without a reply.
        let request: UInt64?

        /// The bytes that the entry keeps.
        fileprivate var size: Int {
            message.components.reduce(100) { size, component in
                if case .bytes(let bytes) = component { size + bytes.count } else { size }
            }
        }
    }

    /// The most messages that wait, and the most bytes in them.
    static let limits = (messages: 100_000, bytes: 64 << 20)

    private var entries: [Entry] = []
    private var first = 0
    private var bytes = 0

    var isEmpty: Bool { first == entries.count }
    var count: Int { entries.count - first }

    /// The numbers of the requests that wait.
    var requests: [UInt64] { entries[first...].compactMap(\.request) }

    /// Adds a message. A single one may have any size.
    /// - Returns: Whether there was room for the message.
    mutating func append(_ entry: Entry) -> Bool {
        let size = entry.size
        guard isEmpty || (count < Self.limits.messages && bytes + size <= Self.limits.bytes) else { return false }
        add(entry)
        return true
    }

    /// Adds a message that other messages rely on.
    mutating func add(_ entry: Entry) {
        entries.append(entry)
        bytes += entry.size
    }

    mutating func takeFirst() -> Entry? {
        guard !isEmpty else { return nil }
        let entry = entries[first]
        first += 1
        bytes -= entry.size
        if isEmpty || first > 1000 && first > entries.count / 2 {
            entries.removeSubrange(..<first)
            first = 0
        }
        return entry
    }
}
