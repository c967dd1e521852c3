import ArgumentParser
import Glibc
import Ports
import RunLoops

struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show how busy the ports of all names are, the busiest first, until interrupted.",
        discussion: """
            WAITING is how many messages were sent and are not taken yet, RATE how many were taken in a second, RECEIVED \
            how many since the port was made. A ? stands for an owner that does not answer.
            """)

    @Option(name: .shortAndLong, help: "How many times; for ever, if nothing is said.")
    var count: Int?
    @Option(name: .shortAndLong, help: "How many seconds from one to the next.")
    var interval = Seconds(.seconds(1))
    @OptionGroup var output: JSONFlag

    func validate() throws {
        if let count, count < 1 { throw ValidationError("The count begins with 1.") }
    }

    /// What was seen of a port the last time.
    private struct Sample {
        let registration: PortNameServer.Registration
        let time: MonotonicInstant
        let statistics: MachPort.Statistics?
        /// In a second; nil for what is seen for the first time.
        let rate: Double?
    }

    func run() throws {
        let interrupted = Gate()
        let signals = try RunLoopThread(name: "signals")
        for signal in [SIGINT, SIGTERM] { try signals.loop.add(.signal(signal) { _ in interrupted.open() }) }
        var former: [String: Sample] = [:]
        var shown = 0
        var next = MonotonicInstant.now
        repeat {
            let samples = try PortNameServer.shared.registrations().map { sample($0, after: former[$0.port]) }
            former = Dictionary(samples.map { ($0.registration.port, $0) }) { $1 }
            show(samples.sorted { ($0.rate ?? -1, $1.registration.name) > ($1.rate ?? -1, $0.registration.name) })
            shown += 1
            next = max(next + interval.duration, .now)
        } while shown != count && !interrupted.wait(until: next)
        signals.stop()
    }

    private func sample(_ registration: PortNameServer.Registration, after former: Sample?) -> Sample {
        let statistics = registration.statistics()
        let now = MonotonicInstant.now
        var rate: Double?
        if let statistics, let former, let before = former.statistics {
            rate = Double(statistics.received - before.received) / (former.time.duration(to: now) / .seconds(1))
        }
        return Sample(registration: registration, time: now, statistics: statistics, rate: rate)
    }

    /// The owner may have said anything.
    private func whole(_ rate: Double) -> Int { Int(exactly: rate.rounded()) ?? (rate < 0 ? .min : .max) }

    private func show(_ samples: [Sample]) {
        if output.isJSON {
            let rows = samples.map { sample in
                JSON.object([
                    ("name", .string(sample.registration.name)), ("pid", .integer(Int(sample.registration.pid))),
                    ("waiting", sample.statistics.map { .integer($0.waiting) } ?? .null),
                    ("rate", sample.rate.map { .integer(whole($0)) } ?? .null),
                    ("received", sample.statistics.map { .integer($0.received) } ?? .null),
                ])
            }
            return print("\(JSON.array(rows))")
        }
        // On a terminal each takes the place of the one before.
        if isatty(STDOUT_FILENO) == 1 { write("\u{1B}[H\u{1B}[2J".utf8) }
        print(
            table: [["NAME", "PID", "WAITING", "RATE", "RECEIVED", "PROGRAM"]]
                + samples.map { sample in
                    [
                        printable(sample.registration.name), "\(sample.registration.pid)",
                        sample.statistics.map { "\($0.waiting)" } ?? "?",
                        sample.rate.map { "\(whole($0))/s" } ?? "-",
                        sample.statistics.map { "\($0.received)" } ?? "?", sample.registration.shownProgram,
                    ]
                })
        if isatty(STDOUT_FILENO) != 1 { print("") }
    }
}
