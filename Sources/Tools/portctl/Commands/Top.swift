#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports
    import PortsInspection
    import RunLoops

    struct Top: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Show how busy the ports of all names are until interrupted or, at a terminal, until q.",
            discussion: """
                STATE is that of the command list. WAITING counts the messages that were sent and are not taken yet, RATE those \
                taken in a second, RECEIVED those taken since the port was made, and SENDER is the process that sends most. The \
                ports whose messages nobody takes come first, then the busiest. At a terminal, the table fills the window, and \
                each one replaces the one before.
                """)

        @OptionGroup var repetition: Repetition
        @OptionGroup var output: JSONFlag

        private struct Sample: Encodable {
            let name: String
            let pid: Int32
            let state: PortInfo.Condition
            let sender: Int32?
            let waiting: Int?
            let rate: Int?
            let received: Int?

            private enum CodingKeys: CodingKey { case name, pid, state, sender, waiting, rate, received }

            private let program: String
            private let senderText: String?
            /// 1 for a port whose messages nobody takes.
            let trouble: Int

            init(_ report: PortReport, after former: PortReport?) {
                (name, pid) = (report.registration.name, report.registration.pid)
                (state, program) = (report.condition, report.registration.shownProgram)
                (waiting, received) = (report.statistics?.waiting, report.statistics?.received)
                trouble = report.trouble != nil && !report.isServed ? 1 : 0
                let busiest = report.info?.busiestSender
                (sender, senderText) = (busiest?.pid, busiest.map { "\($0)".escaped })
                guard let received, let former, let before = former.statistics?.received else {
                    rate = nil
                    return
                }
                let perSecond = Double(received - before) / (former.time.duration(to: report.time) / .seconds(1))
                // A peer may report any count.
                rate = Int(exactly: perSecond.rounded()) ?? (perSecond < 0 ? .min : .max)
            }

            static let titles = ["NAME", "PID", "STATE", "WAITING", "RATE", "RECEIVED", "SENDER", "PROGRAM"]

            var row: [String] {
                [
                    name.escaped, "\(pid)", state.rawValue, waiting.map { "\($0)" } ?? "?",
                    rate.map { "\($0)/s" } ?? "-", received.map { "\($0)" } ?? "?", senderText ?? "-", program,
                ]
            }
        }

        func run() throws {
            let terminal = output.isJSON ? nil : Terminal()
            var former: [PortIdentity: PortReport] = [:]
            var table = Table(rows: [Sample.titles], stateColumn: 2, whole: 1...5)
            try repetition.run(on: terminal, redraw: { terminal?.show(table) }) { _ in
                let reports = try PortReport.all(PortNameServer.shared.found(), timeout: .milliseconds(300))
                let samples = reports.map { Sample($0, after: former[$0.registration.port]) }
                former = Dictionary(reports.map { ($0.registration.port, $0) }) { $1 }
                let sorted = samples.sorted {
                    ($0.trouble, $0.rate ?? -1, $1.name) > ($1.trouble, $1.rate ?? -1, $0.name)
                }
                table.rows = [Sample.titles] + sorted.map(\.row)
                if output.isJSON {
                    print(json: sorted)
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
#endif
