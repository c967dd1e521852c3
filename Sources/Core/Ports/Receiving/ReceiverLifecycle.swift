/// Whether a port receives, and the turns of threads. A thread takes and handles messages in a turn; while a turn
/// lasts, the socket stays open.
struct ReceiverLifecycle {
    private enum Phase {
        case open
        /// Invalidated, with turns that last.
        case ending
        case invalid
    }

    private var phase = Phase.open
    private var turns: [Int32] = []
    /// Called at the end of the last turn.
    private var atEnd: (@Sendable () -> Void)?

    var isOpen: Bool { phase == .open }
    var isClosed: Bool { phase == .invalid }
    var turnCount: Int { turns.count }

    /// Whether the thread has a turn.
    func hasTurn(_ thread: Int32) -> Bool { isOpen && turns.contains(thread) }

    /// - Returns: False when the port is invalid.
    mutating func beginTurn(_ thread: Int32) -> Bool {
        if isOpen { turns.append(thread) }
        return isOpen
    }

    /// - Returns: The closure to call after the last turn.
    mutating func endTurn(_ thread: Int32) -> (@Sendable () -> Void)? {
        if let index = turns.lastIndex(of: thread) { turns.remove(at: index) }
        return turns.isEmpty ? atEnd.take() : nil
    }

    /// - Returns: Whether this call has invalidated the port.
    mutating func invalidate() -> Bool {
        guard isOpen else { return false }
        phase = .ending
        return true
    }

    /// Leaves `finish` to the last turn, if another thread has a turn.
    /// - Parameter hasEnded: Whether a thread has ended without the end of its turn, by `pthread_exit` in a handler.
    /// - Returns: Whether the last turn calls `finish`.
    mutating func finishLater(
        on thread: Int32, hasEnded: (Int32) -> Bool, _ finish: @escaping @Sendable () -> Void
    ) -> Bool {
        guard isOthersTurn(on: thread, hasEnded: hasEnded) else { return false }
        atEnd = finish
        return true
    }

    /// Whether another thread has a turn of an invalid port.
    mutating func isOthersTurn(on thread: Int32, hasEnded: (Int32) -> Bool) -> Bool {
        guard phase == .ending else { return false }
        turns.removeAll(where: hasEnded)
        return turns.contains { $0 != thread }
    }

    mutating func finish() { (phase, atEnd) = (.invalid, nil) }
}
