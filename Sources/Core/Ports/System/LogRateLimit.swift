import Glibc
import RunLoops

/// Limits the lines of the log for each subject, and for all peers together. Lines about this process count separately.
package struct LogRateLimit {
    package enum Subject: Hashable {
        case process(pid_t)
        case incarnation(Incarnation)
        case own
    }

    private struct Fault: Hashable {
        let subject: Subject
        let kind: String
    }

    static let period = Duration.seconds(60)
    static let mostAboutOne = 8
    static let most = 60

    /// The end of the minute in which the lines are counted.
    private(set) var end = MonotonicInstant.distantPast
    private var counts: [Subject: Int] = [:]
    private var count = 0
    private(set) var omitted = 0
    /// Faults that were written once, and are not written again.
    private var said: Set<Fault> = []

    mutating func admits(_ subject: Subject, once kind: String?, at now: MonotonicInstant) -> Bool {
        let fault = kind.map { Fault(subject: subject, kind: $0) }
        if let fault, said.contains(fault) { return false }
        if now >= end { (end, counts, count) = (now + Self.period, [:], 0) }
        let isOwn = subject == .own
        guard isOwn || count < Self.most, counts[subject, default: 0] < Self.mostAboutOne else {
            omitted += 1
            return false
        }
        if !isOwn { count += 1 }
        counts[subject, default: 0] += 1
        if let fault {
            // Peers that come and go must not make the set grow without bound.
            if said.count >= 1024 { said.removeAll() }
            said.insert(fault)
        }
        return true
    }

    mutating func takeOmitted() -> Int { exchange(&omitted, with: 0) }
}
