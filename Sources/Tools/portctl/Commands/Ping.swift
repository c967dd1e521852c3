#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports

    struct Ping: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Ask a port's owner for signs of life, until interrupted.",
            discussion: """
                The library in the owner's process answers. Use request to test whether the owner handles its messages. With \
                --nats, the first server of the name that answers counts.
                """)

        @OptionGroup var port: NameArgument
        @OptionGroup var repetition: Repetition
        @Option(seconds: "Seconds to wait for each answer.")
        var timeout = Seconds(.seconds(1))
        @OptionGroup var nats: NATSOption
        @OptionGroup var output: JSONFlag

        func run() throws {
            if let connection = try nats.connection() {
                return try run(asking: "a server on \(connection)") { try time(by: connection) }
            }
            let right = try port.right(before: timeout.deadline)
            let owner = try PortNameServer.shared.registration(forName: port.name)?.pid ?? 0
            try run(asking: "process \(owner)") { try right.ping(before: timeout.deadline) }
        }

        /// - Parameter ask: Asks once. Throws `PortError`, among others.
        private func run(asking owner: String, _ ask: () throws -> Duration) throws {
            if !output.isJSON { print("PING \(port.name.escaped): \(owner)") }

            var (times, sent, failure): ([Duration], Int, PortError?) = ([], 0, nil)
            try repetition.run { number in
                sent = number
                do {
                    let time = try ask()
                    times.append(time)
                    show(sent, time, owner)
                    return true
                } catch let error as PortError {
                    failure = error
                    show(sent, nil, owner)
                    report(error)
                    if case .receiveTimedOut = error { return true }
                    return false
                }
            }
            showSummary(sent, times)
            if let status = failure.map({ ExitCode($0) }), times.isEmpty || status != .timeout { throw status }
        }

        private func show(_ number: Int, _ time: Duration?, _ owner: String) {
            if output.isJSON {
                print(json: Answer(seq: number, milliseconds: time))
            } else if let time {
                print("answer of \(owner): seq=\(number) time=\(milliseconds(time)) ms")
            }
        }

        private func showSummary(_ sent: Int, _ times: [Duration]) {
            let average = times.isEmpty ? nil : times.reduce(.zero, +) / times.count
            let summary = Summary(
                sent: sent, answered: times.count, min: times.min(), avg: average, max: times.max())
            if output.isJSON {
                print(json: summary)
            } else {
                print("\n--- \(port.name.escaped) ping statistics ---")
                print("\(sent) sent, \(times.count) answered, \((sent - times.count) * 100 / sent)% lost")
                let figures = [summary.min, summary.avg, summary.max].compactMap { $0.map(milliseconds) }
                if !times.isEmpty { print("round trip min/avg/max = \(figures.joined(separator: "/")) ms") }
            }
        }
    }

    private struct Answer: Encodable {
        let seq: Int
        let milliseconds: Duration?
    }

    private struct Summary: Encodable {
        let sent: Int
        let answered: Int
        let min: Duration?
        let avg: Duration?
        let max: Duration?
    }
#endif
