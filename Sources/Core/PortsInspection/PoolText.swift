import Ports

extension PortInfo.Pool {
    /// How many of the workers are busy.
    package var state: String { "\(workers.count { $0.busy > 0 }) of \(workers.count { !$0.isSpare }) busy" }

    /// The work of the pool and of its workers, in a sentence.
    package var text: String {
        let facts = [(workers.count { $0.isSpare }, "spare"), (waiting, "waiting"), (restarts, "restarted")]
        return "Pool “\(name)”: \(state)" + facts.filter { $0.0 > 0 }.map { ", \($0.0) \($0.1)" }.joined()
            + (workers.isEmpty ? "." : "; \(workers.map(\.text).joined(separator: ", ")).")
    }
}

extension PortInfo.Worker {
    /// The state of the worker, in a word.
    package var state: String { busy > 0 ? "busy" : isSpare ? "spare" : "idle" }

    fileprivate var text: String {
        "pid \(pid) \(state)" + (requests > 0 ? " with \(requests) request\(requests == 1 ? "" : "s")" : "")
    }
}

extension [PortReport] {
    /// The pools of the owners, each once.
    package var pools: [(owner: Int32, pool: PortInfo.Pool)] {
        var owners: Set<Int32> = []
        // A process says the same for each of its ports.
        let first = filter { $0.info != nil && owners.insert($0.registration.pid).inserted }
        return first.flatMap { report in
            (report.info?.pools ?? []).map { (owner: report.registration.pid, pool: $0) }
        }
    }
}
