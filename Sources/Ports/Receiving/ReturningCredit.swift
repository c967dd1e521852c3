// How a port with a byte limit returns credit to senders in other processes.

extension Receiver {
    /// Collects the bytes of a frame, which go back to its sender as credit. After the last frame all credit goes back:
    /// the taker may not look again.
    func collectCredit(_ bytes: Int, for origin: UInt32, isLast: Bool) {
        let (due, isTooMany) = state.withLock { state in
            (state.credit.take(bytes, from: origin), state.credit.count > ControlConnectionTable.most)
        }
        if due > 0 { returnCredit(due, to: origin) }
        if isTooMany || isLast { returnAllCredit() }
    }

    func returnAllCredit() { state.withLock { $0.credit.returnAll() }.forEach { returnCredit($1, to: $0) } }

    /// There is a new connection to a sender.
    func returnUndeliveredCredit() {
        state.withLock { $0.credit.returnUndelivered() }.forEach { returnCredit($1, to: $0) }
    }

    private func returnCredit(_ bytes: Int, to origin: UInt32) {
        guard !context.control.send(.credit(id.number, bytes: UInt64(bytes)), to: origin) else { return }
        state.withLock { $0.credit.keep(bytes, of: origin, most: ControlConnectionTable.most) }
        if !context.control.noteOwing(id.number, to: origin) { returnUndeliveredCredit() }
    }
}
