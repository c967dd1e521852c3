import ArgumentParser
import Glibc
import Ports
import RunLoops

struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract:
            "Show how busy the ports of all names are until interrupted or, at a terminal, until q.",
        discussion: """
            STATE is that of the command list. WAITING counts the messages that were sent and are not taken yet, RATE those \
            taken in a second, RECEIVED those taken since the port was made, and SENDER is the process that sends most. The \
            ports whose messages nobody takes come first, then the busiest. A ? stands for an owner that does not answer. At a terminal, the table fills the window, and each one replaces the \
            one before.
            """)

    @OptionGroup var repetition: Repetition
    @OptionGroup var output: JSONFlag

    private struct Sample {
        let look: Look
        let rate: Double?

        init(_ look: Look, after former: Look?) {
            self.look = look
            guard let now = look.statistics, let former, let before = former.statistics else {
                rate = nil
                return
            }
            rate = Double(now.received &- before.received) / (former.time.duration(to: look.time) / .seconds(1))
        }

        /// A peer may report any count.
        var wholeRate: Int? { rate.map { Int(exactly: $0.rounded()) ?? ($0 < 0 ? .min : .max) } }

        /// 1 for a port whose messages nobody takes.
        var trouble: Int { look.trouble != nil && !look.isServed ? 1 : 0 }

        var sender: PortService.Sender? { look.service?.busiestSender }

        var json: JSON {
            .object([
                ("name", .string(look.registration.name)), ("pid", .integer(Int(look.registration.pid))),
                ("state", .string(look.state)), ("sender", .integer((sender?.pid).map(Int.init))),
                ("waiting", .integer(look.statistics?.waiting)), ("rate", .integer(wholeRate)),
                ("received", .integer(look.statistics?.received)),
            ])
        }

        static let titles = ["NAME", "PID", "STATE", "WAITING", "RATE", "RECEIVED", "SENDER", "PROGRAM"]

        var row: [String] {
            [
                look.registration.name.escaped, "\(look.registration.pid)", look.state,
                look.statistics.map { "\($0.waiting)" } ?? "?", wholeRate.map { "\($0)/s" } ?? "-",
                look.statistics.map { "\($0.received)" } ?? "?", sender.map { "\($0)".escaped } ?? "-",
                look.registration.shownProgram,
            ]
        }
    }

    func run() throws {
        let terminal = output.isJSON ? nil : Terminal()
        var former: [PortIdentity: Look] = [:]
        var table = Table(rows: [Sample.titles], stateColumn: 2, whole: 1...5)
        try repetition.run(on: terminal, redraw: { terminal?.show(table) }) { _ in
            let looks = try Look.all(PortNameServer.shared.registrations(), timeout: .milliseconds(300))
            let samples = looks.map { Sample($0, after: former[$0.registration.port]) }
            former = Dictionary(looks.map { ($0.registration.port, $0) }) { $1 }
            let sorted = samples.sorted {
                ($0.trouble, $0.rate ?? -1, $1.look.registration.name)
                    > ($1.trouble, $1.rate ?? -1, $0.look.registration.name)
            }
            table.rows = [Sample.titles] + sorted.map(\.row)
            if output.isJSON {
                print("\(JSON.array(sorted.map(\.json)))")
            } else if let terminal {
                terminal.show(table)
            } else {
                for line in table.lines() + [""] { print(line) }
            }
            return true
        }
        terminal?.leave()
    }
}
