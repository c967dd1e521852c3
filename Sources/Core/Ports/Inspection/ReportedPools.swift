import RunLoopLocks

/// The pools of this process: answers about its ports mention those that run, and its counters have what all have done.
final class ReportedPools: Sendable {
    private let running = Reports<PoolReport>()
    /// The counts of pools that do not run any more, by name.
    private let former = Lock<[String: PortCounters.Pool]>([:])

    /// The most pools in an answer.
    private static let most = 16
    /// The most names of pools that do not run, because a program may make names without end.
    private static let mostFormer = 256

    func add(_ report: @escaping @Sendable () -> PoolReport) -> Int { running.add(report) }

    func remove(_ number: Int) {
        // With the lock held, so that the counters have the pool once.
        former.withLock { former in
            guard let report = running.remove(number)?() else { return }
            guard former[report.name] != nil || former.count < Self.mostFormer else { return }
            former[report.name, default: PortCounters.Pool()].add(report.tally)
        }
    }

    /// The pools that run, the oldest first.
    var all: [PortInfo.Pool] { running.all(atMost: Self.most).map { PortInfo.Pool($0) } }

    var counters: [String: PortCounters.Pool] {
        former.withLock { former in
            running.all().reduce(into: former) { $0[$1.name, default: PortCounters.Pool()].add($1) }
        }
    }
}

extension PortCounters.Pool {
    fileprivate mutating func add(_ report: PoolReport) {
        let (spare, others) = report.workers.reduce(into: (0, 0)) { if $1.isSpare { $0.0 += 1 } else { $0.1 += 1 } }
        let busy = report.workers.count { $0.busy > 0 }
        spares += spare
        self.busy += busy
        idle += others - busy
        missing += max(0, report.count + report.spares - report.workers.count)
        waiting += report.waiting
        add(report.tally)
    }

    fileprivate mutating func add(_ tally: PoolReport.Tally) {
        waited += tally.waited
        waitTime += tally.waitTime
        ended.merge(tally.ended, uniquingKeysWith: +)
    }
}
