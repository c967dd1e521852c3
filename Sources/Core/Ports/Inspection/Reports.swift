import RunLoopLocks

/// Reports of parts of this process, which are made when somebody asks. Modules above this one register them.
final class Reports<Report: Sendable>: Sendable {
    private struct State {
        var reports: [Int: @Sendable () -> Report] = [:]
        var lastNumber = 0
    }

    private let state = Lock(State())

    func add(_ report: @escaping @Sendable () -> Report) -> Int {
        state.withLock { state in
            state.lastNumber += 1
            state.reports[state.lastNumber] = report
            return state.lastNumber
        }
    }

    /// - Returns: The closure, for a last report; nil for a number that was removed.
    @discardableResult
    func remove(_ number: Int) -> (@Sendable () -> Report)? {
        state.withLock { $0.reports.removeValue(forKey: number) }
    }

    /// The reports, the oldest reporter's first.
    /// - Parameter most: The most that are made.
    func all(atMost most: Int = .max) -> [Report] {
        let reports = state.withLock { state in state.reports.sorted { $0.key < $1.key }.prefix(most) }
        return reports.map { $0.value() }
    }
}
