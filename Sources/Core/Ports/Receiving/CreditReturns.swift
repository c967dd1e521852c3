import RunLoopLocks

/// The bytes that a port with a byte limit has taken and not yet returned to the senders as credit.
struct CreditReturns {
    /// By the senders' origins.
    private var unreturned: [UInt32: Int] = [:]
    /// Credit that could not be returned, because there was no connection to the sender.
    private var undelivered: [UInt32: Int] = [:]
    private let batch: Int

    /// Credit is returned in batches of an eighth of the limit, and in full when the queue is empty.
    init(byteLimit: Int) { batch = byteLimit / 8 }

    /// - Returns: The credit to return to the sender now; 0 for none.
    mutating func take(_ bytes: Int, from sender: UInt32) -> Int {
        let sum = unreturned[sender, default: 0] + bytes
        let isDue = sum >= batch
        unreturned[sender] = isDue ? nil : sum
        return isDue ? sum : 0
    }

    /// The number of senders with unreturned credit. If it exceeds the number of possible peers, somebody invents
    /// origins.
    var count: Int { unreturned.count }
    mutating func returnAll() -> [UInt32: Int] { exchange(&unreturned, with: [:]) }

    /// Keeps credit for the next connection to the sender.
    mutating func keep(_ bytes: Int, of sender: UInt32, most: Int) {
        if undelivered[sender] != nil || undelivered.count < most { undelivered[sender, default: 0] += bytes }
    }

    mutating func returnUndelivered() -> [UInt32: Int] { exchange(&undelivered, with: [:]) }
}

/// Returns credit to senders in other processes: the bytes of their frames that a port with a byte limit has taken. Rings
/// need none.
final class FrameCredit: Sendable {
    private let port: UInt64
    private let control: ControlConnectionTable
    private let returns: Lock<CreditReturns>

    init(_ port: UInt64, byteLimit: Int, _ control: ControlConnectionTable) {
        (self.port, self.control) = (port, control)
        returns = Lock(CreditReturns(byteLimit: byteLimit))
    }

    /// Collects the bytes of a frame, which go back to its sender as credit. After the last frame, all credit goes
    /// back, because the taker may not come again.
    func collect(_ bytes: Int, for origin: UInt32, isLast: Bool) {
        let (due, isTooMany) = returns.withLock { returns in
            (returns.take(bytes, from: origin), returns.count > ControlConnectionTable.most)
        }
        if due > 0 { give(due, to: origin) }
        if isTooMany || isLast { returnAll() }
    }

    func returnAll() { returns.withLock { $0.returnAll() }.forEach { give($1, to: $0) } }

    /// Returns credit again, because a connection to a sender was made.
    func returnUndelivered() { returns.withLock { $0.returnUndelivered() }.forEach { give($1, to: $0) } }

    private func give(_ bytes: Int, to origin: UInt32) {
        guard !control.send(.credit(port, bytes: UInt64(bytes)), to: origin) else { return }
        returns.withLock { $0.keep(bytes, of: origin, most: ControlConnectionTable.most) }
        if !control.noteOwing(port, to: origin) { returnUndelivered() }
    }
}
