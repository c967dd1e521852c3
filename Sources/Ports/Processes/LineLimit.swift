import Glibc
import RunLoops

/// Which lines go into the log: about one subject, and about all peers together, only so many a minute, however much
/// cause there is for them. The process's own lines leave those about peers their room, and have theirs.
struct LineLimit {
    /// Whom a line is about.
    enum Subject: Hashable {
        case process(pid_t)
        case incarnation(Incarnation)
        /// This process, or the registry directory.
        case own
    }

    private struct Fault: Hashable {
        let subject: Subject
        let kind: String
    }

    static let period = Duration.seconds(60)
    static let mostAboutOne = 8
    static let most = 60

    /// When the minute ends that the counts below are of.
    private(set) var end = MonotonicInstant.distantPast
    private var counts: [Subject: Int] = [:]
    /// Those about peers.
    private var count = 0
    /// How many lines were left out and not said to be.
    private(set) var omitted = 0
    /// What was said already, and is not said again.
    private var said: Set<Fault> = []

    /// After so many they are forgotten, lest peers that come and go make the set grow.
    private static let mostSaid = 1024

    /// - Parameter kind: What the line says of its subject, when it is to say so once; nil for a line of its own.
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
            if said.count >= Self.mostSaid { said.removeAll() }
            said.insert(fault)
        }
        return true
    }

    /// How many lines were left out since this was asked the last time.
    mutating func takeOmitted() -> Int {
        defer { omitted = 0 }
        return omitted
    }
}
