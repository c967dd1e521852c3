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

// Returning credit to senders in other processes.

extension Receiver {
    /// Collects the bytes of a frame, which go back to its sender as credit. After the last frame, all credit goes
    /// back, because the taker may not come again.
    func collectCredit(_ bytes: Int, for origin: UInt32, isLast: Bool) {
        let (due, isTooMany) = state.withLock { state in
            (state.credit.take(bytes, from: origin), state.credit.count > ControlConnectionTable.most)
        }
        if due > 0 { returnCredit(due, to: origin) }
        if isTooMany || isLast { returnAllCredit() }
    }

    func returnAllCredit() { state.withLock { $0.credit.returnAll() }.forEach { returnCredit($1, to: $0) } }

    /// Returns credit again, because a connection to a sender was made.
    func returnUndeliveredCredit() {
        state.withLock { $0.credit.returnUndelivered() }.forEach { returnCredit($1, to: $0) }
    }

    private func returnCredit(_ bytes: Int, to origin: UInt32) {
        guard !context.control.send(.credit(id.number, bytes: UInt64(bytes)), to: origin) else { return }
        state.withLock { $0.credit.keep(bytes, of: origin, most: ControlConnectionTable.most) }
        if !context.control.noteOwing(id.number, to: origin) { returnUndeliveredCredit() }
    }
}
