import RunLoopLocks

/// The pools of this process, which answers about its ports mention.
final class ReportedPools: Sendable {
    typealias Report = @Sendable () -> PortService.Pool

    private struct State {
        var reports: [Int: Report] = [:]
        var lastNumber = 0
    }

    /// The most pools in an answer.
    private static let most = 16

    private let state = Lock(State())

    func add(_ report: @escaping Report) -> Int {
        state.withLock { state in
            state.lastNumber += 1
            state.reports[state.lastNumber] = report
            return state.lastNumber
        }
    }

    func remove(_ number: Int) {
        let former = state.withLock { $0.reports.removeValue(forKey: number) }
        withExtendedLifetime(former) {}
    }

    /// The pools, the oldest first.
    var all: [PortService.Pool] {
        let reports = state.withLock { state in state.reports.sorted { $0.key < $1.key }.prefix(Self.most) }
        return reports.map { $0.value() }
    }
}
