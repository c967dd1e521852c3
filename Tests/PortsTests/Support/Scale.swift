import Glibc
import RunLoops
import TestSupport

/// How much the tests of load do: a little in `make test`, all of it in `make soak`, which sets `SOAK`.
enum Scale {
    static let isLong = getenv("SOAK") != nil

    static func count(_ short: Int, long: Int) -> Int { isLong ? long : short }

    /// Far enough for all of it.
    static var patience: ContinuousClock.Instant { isLong ? .now + .seconds(300) : .patience }

    /// Whether all tests run mixed.
    static let isMixing = Shared(false)

    /// Whether times count: not beside other tests.
    static var isMeasured: Bool { isLong && !isMixing.withLock { $0 } }

    /// Shows a figure of the long form.
    static func show(_ line: @autoclosure () -> String) {
        guard isMeasured else { return }
        print(line())
        fflush(nil)
    }
}

/// Times, and what is said of them.
struct Times {
    private(set) var all: [Duration] = []

    mutating func add(_ time: Duration) { all.append(time) }

    mutating func add(_ times: some Sequence<Duration>) { all += times }

    /// The time that so much of all are within.
    func percentile(_ percent: Int) -> Duration {
        let sorted = all.sorted()
        return sorted.isEmpty ? .zero : sorted[min(sorted.count * percent / 100, sorted.count - 1)]
    }

    var summary: String {
        let figures = [50, 99, 100].map { percentile($0) / .milliseconds(1) }
            .map { "\(($0 * 1000).rounded() / 1000) ms" }
        return "median \(figures[0]), p99 \(figures[1]), most \(figures[2]) of \(all.count)"
    }
}
