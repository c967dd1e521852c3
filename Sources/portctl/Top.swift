import ArgumentParser
import Glibc
import Ports
import RunLoops

struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show how busy the ports of all names are, the busiest first, until interrupted.",
        discussion: """
            WAITING counts the messages that were sent and are not taken yet, RATE those taken in a second, RECEIVED those \
            taken since the port was made. A ? stands for an owner that does not answer.
            """)

    @OptionGroup var repetition: Repetition
    @OptionGroup var output: JSONFlag

    private struct Sample {
        let registration: PortNameServer.Registration
        let time: MonotonicInstant
        let statistics: MachPort.Statistics?
        let rate: Double?
    }

    func run() throws {
        var former: [String: Sample] = [:]
        try repetition.run { _ in
            let samples = try PortNameServer.shared.registrations().map { sample($0, after: former[$0.port]) }
            former = Dictionary(samples.map { ($0.registration.port, $0) }) { $1 }
            show(samples.sorted { ($0.rate ?? -1, $1.registration.name) > ($1.rate ?? -1, $0.registration.name) })
            return true
        }
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

    /// A peer may report any count.
    private func whole(_ rate: Double) -> Int { Int(exactly: rate.rounded()) ?? (rate < 0 ? .min : .max) }

    private func show(_ samples: [Sample]) {
        if output.isJSON {
            let rows = samples.map { sample in
                JSON.object([
                    ("name", .string(sample.registration.name)), ("pid", .integer(Int(sample.registration.pid))),
                    ("waiting", .integer(sample.statistics?.waiting)), ("rate", .integer(sample.rate.map(whole))),
                    ("received", .integer(sample.statistics?.received)),
                ])
            }
            return print("\(JSON.array(rows))")
        }
        // On a terminal each table replaces the one before.
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
