#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports
    import PortsInspection

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show all names, their owners, and how many messages wait.",
            discussion: """
                STATE is served; busy, while a message is handled or waits for its reply, and no other waits; slow, when a request has had no reply \
                for two seconds or more, or a task has handled a message for so long; unserved, when nobody takes the port's \
                messages; stuck, when messages wait and none was taken while portctl looked, or one has been in its handler for two seconds or more; \
                flooded, when more wait than are soon handled; stopped, when the owner's process is; silent, when \
                the owner does not answer; or unknown, when it could not be asked. HANDLING, if there is any, is the message \
                or the oldest request in a handler, with its sender. At a terminal, ports in trouble come first, and long texts \
                lose their middle. The commands info and doctor tell more.

                A second table has the pools of worker processes of these owners, with each worker's process, whether it is busy, \
                idle or a spare, and how many requests it has had.

                With --nats, the table has the servers on NATS, the requests that each has taken and answered with errors, and how \
                many milliseconds one takes on average.
                """)

        @Flag(help: "Show the names of the library's own, too, such as those that launched workers check in by.")
        var all = false
        @OptionGroup var nats: NATSOption
        @OptionGroup var output: JSONFlag

        func run() throws {
            if let connection = try nats.connection() { return try show(connection) }
            let found = try PortNameServer.shared.found(includingInternal: all)
            // A directory that is full or read-only has names to show, though no port for an answer can be made there.
            let reports = try PortReport.all(found, needsAnswers: false)
            if let failure = reports.lazy.compactMap(\.ownFailure).first { report("cannot ask owners: \(failure)") }
            if output.isJSON { return print(json: reports) }
            guard !found.isEmpty else {
                return report("no names in \(PortNameServer.shared.path) (see PORTS_DIRECTORY)")
            }
            let isHandling = reports.contains { $0.handling != nil }
            // Where there is little room, what is handled matters more than since when, and for whom; `info` has all.
            let isNarrow = terminalWidth.map { $0 < 120 && isHandling } ?? false
            let about = isNarrow ? [] : ["UID", "NAMED"]
            let titles = ["NAME", "PID"] + about + ["STATE", "WAITING", "PROGRAM"] + (isHandling ? ["HANDLING"] : [])
            // A person wants to see what is wrong, a program finds the names in their order.
            let isShort = terminalWidth != nil
            let shown = !isShort ? reports : reports.sorted { $0.rank < $1.rank }
            let rows = shown.map { report -> [String] in
                let found = report.registration
                var row = [found.name.escaped, "\(found.pid)"]
                if !isNarrow { row += ["\(found.uid)", isShort ? shortTime(found.since) : time(found.since)] }
                row += [report.state, report.statistics.map { "\($0.waiting)" } ?? "?"]
                row.append(isNarrow ? found.shownProgram.lastComponent : found.shownProgram)
                if isHandling { row.append(report.handling.map(\.escaped) ?? "-") }
                return row
            }
            let state = 2 + about.count
            print(Table(rows: [titles] + rows, stateColumn: state, whole: 1...(state + 1)))
            let pools = reports.pools
            if pools.isEmpty { return }
            print("")
            print(
                Table(
                    rows: [["POOL", "PID", "STATE", "REQUESTS", "RESTARTS"]]
                        + pools.flatMap { poolRows($0.owner, $0.pool) }, whole: 1...4))
        }

        /// A row for a pool, and one for each of its workers.
        private func poolRows(_ owner: Int32, _ pool: PortInfo.Pool) -> [[String]] {
            [[pool.name.escaped, "\(owner)", pool.state, "\(pool.waiting) waiting", "\(pool.restarts)"]]
                + pool.workers.map { ["  worker", "\($0.pid)", $0.state, "\($0.requests)", "-"] }
        }
    }

    extension String {
        /// The text after the last slash.
        fileprivate var lastComponent: String { split(separator: "/").last.map(String.init) ?? self }
    }
#endif
