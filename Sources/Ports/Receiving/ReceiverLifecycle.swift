/// Whether a port receives, and the turns of threads. A thread takes and handles messages in a turn; while a turn
/// lasts, the socket stays open.
enum ReceiverLifecycle {
    case open(turns: [Int32])
    /// Invalidated. The end of the last turn calls `finish`.
    case ending(turns: [Int32], finish: (@Sendable () -> Void)?)
    case invalid

    var isOpen: Bool { if case .open = self { true } else { false } }

    /// Whether the thread has a turn.
    func hasTurn(_ thread: Int32) -> Bool { if case .open(let turns) = self { turns.contains(thread) } else { false } }

    /// - Returns: False when the port is invalid.
    mutating func beginTurn(_ thread: Int32) -> Bool {
        guard case .open(var turns) = self else { return false }
        // Without the old value, the array is not copied.
        self = .invalid
        turns.append(thread)
        self = .open(turns: turns)
        return true
    }

    /// - Returns: The closure to call after the last turn.
    mutating func endTurn(_ thread: Int32) -> (@Sendable () -> Void)? {
        switch self {
        case .open(var turns):
            self = .invalid
            turns.removeLast(thread)
            self = .open(turns: turns)
            return nil
        case .ending(var turns, let finish):
            turns.removeLast(thread)
            self = .ending(turns: turns, finish: turns.isEmpty ? nil : finish)
            return turns.isEmpty ? finish : nil
        case .invalid: return nil
        }
    }

    /// - Returns: Whether this call has invalidated the port.
    mutating func invalidate() -> Bool {
        guard case .open(let turns) = self else { return false }
        self = .ending(turns: turns, finish: nil)
        return true
    }

    /// Leaves `finish` to the last turn, if another thread has a turn.
    /// - Parameter hasEnded: Whether a thread has ended without the end of its turn, by `pthread_exit` in a handler.
    /// - Returns: Whether the last turn calls `finish`.
    mutating func finishLater(
        on thread: Int32, hasEnded: (Int32) -> Bool, _ finish: @escaping @Sendable () -> Void
    ) -> Bool {
        guard isOthersTurn(on: thread, hasEnded: hasEnded), case .ending(let turns, _) = self else { return false }
        self = .ending(turns: turns, finish: finish)
        return true
    }

    /// Whether another thread has a turn.
    mutating func isOthersTurn(on thread: Int32, hasEnded: (Int32) -> Bool) -> Bool {
        guard case .ending(let turns, let finish) = self else { return false }
        let live = turns.filter { !hasEnded($0) }
        self = .ending(turns: live, finish: finish)
        return live.contains { $0 != thread }
    }

    mutating func finish() { self = .invalid }
}

extension [Int32] {
    fileprivate mutating func removeLast(_ thread: Int32) {
        if let index = lastIndex(of: thread) { remove(at: index) }
    }
}
