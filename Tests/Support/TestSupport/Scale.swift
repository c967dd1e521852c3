import Glibc
import RunLoops

/// How much the tests of load do: a little in `make test`, all of it in `make soak`, which sets `SOAK`.
package enum Scale {
    package static let isLong = getenv("SOAK") != nil

    package static func count(_ short: Int, long: Int) -> Int { isLong ? long : short }

    /// Far enough for all of it.
    package static var patience: ContinuousClock.Instant { isLong ? .now + .seconds(300) : .patience }

    /// Whether all tests run mixed.
    package static let isMixing = Shared(false)

    /// Whether times count: not beside other tests.
    package static var isMeasured: Bool { isLong && !isMixing.withLock { $0 } }

    /// Shows a figure of the long form.
    package static func show(_ line: @autoclosure () -> String) {
        guard isMeasured else { return }
        print(line())
        fflush(nil)
    }
}

/// Times, and what is said of them.
package struct Times {
    package private(set) var all: [Duration] = []

    package init() {}

    package mutating func add(_ time: Duration) { all.append(time) }

    package mutating func add(_ times: some Sequence<Duration>) { all += times }

    /// The time that so much of all are within.
    package func percentile(_ percent: Int) -> Duration {
        let sorted = all.sorted()
        return sorted.isEmpty ? .zero : sorted[min(sorted.count * percent / 100, sorted.count - 1)]
    }

    package var summary: String {
        let figures = [50, 99, 100].map { percentile($0) / .milliseconds(1) }
            .map { "\(($0 * 1000).rounded() / 1000) ms" }
        return "median \(figures[0]), p99 \(figures[1]), most \(figures[2]) of \(all.count)"
    }
}
