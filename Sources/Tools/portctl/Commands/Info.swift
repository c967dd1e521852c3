#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports
    import PortsInspection

    struct Info: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show all facts of the registry and the owner about a name.",
            discussion: """
                SERVED says who takes the port's messages: loops, with the modes that have the port and what the loop is doing, \
                a dispatch queue, threads, tasks, or nobody. While messages wait or a loop is busy, the owner looks for a moment \
                (--observe) to see whether anything moves.
                """)

        @OptionGroup var port: NameArgument
        @Option(seconds: "Seconds to look at a port where messages wait; at most ten.")
        var observe = Seconds(.milliseconds(300))
        @OptionGroup var output: JSONFlag

        func validate() throws {
            if observe.duration > .seconds(10) { throw ValidationError("An owner looks for ten seconds at most.") }
        }

        func run() throws {
            let found = try PortNameServer.shared.found(port.name)
            let report = try PortReport.all(
                [found], observing: observe.duration, timeout: .seconds(5), needsAnswers: false)[0]
            let statistics = report.statistics
            if output.isJSON { return print(json: report) }
            let (state, named) = (Style(state: report.state), time(found.since))
            print(
                facts: [
                    ("name", found.name.escaped), ("port", "number \(found.port.id.number) of its owner"),
                    ("owner", "process \(found.pid)"),
                    ("program", found.shownProgram), ("uid", "\(found.uid)"), ("named", named),
                    (
                        "queue",
                        "\(found.queueLimit) messages of each sender; by ZeroMQ as many again in the sender’s process"
                    ),
                    ("bytes", found.byteLimit.map { "\($0) of each sender" } ?? "any number"),
                    ("largest", "messages of \(found.messageLimit) bytes"),
                    ("waiting", statistics.map { messages($0.waiting) } ?? "its owner does not say"),
                    ("received", statistics.map { messages($0.received) } ?? "its owner does not say"),
                ] + rows(report)
            ) { ["state", "trouble"].contains($0) ? state : nil }
        }

        /// The requests in progress, the oldest first, and those that may last behind the others.
        private func texts(of requests: PortInfo.Requests) -> [String] {
            let shown = requests.oldest.filter { !$0.mayLast }.prefix(10) + requests.oldest.filter(\.mayLast).prefix(5)
            let rest = requests.count + requests.lasting - shown.count
            return shown.map { "\($0)" + ($0.mayLast ? ", which may last" : "") }
                + (rest > 0 ? ["and \(rest) more"] : [])
        }

        /// How messages of a sender come. A process that has ended may have sent in both ways.
        private func way(of sender: PortInfo.Sender, to report: PortReport) -> String {
            if sender.pid == report.registration.pid { return ", from thread to thread" }
            return sender.usesSharedMemory ? ", by shared memory" : sender.hasEnded ? "" : ", by ZeroMQ"
        }

        /// Where the port's socket is bound, and its descriptor (`ZMQ_FD`).
        private func sockets(of report: PortReport) -> [String] {
            let descriptor = report.info?.descriptor.map { ", with the descriptor \($0)" } ?? ""
            return [
                "inproc://\(report.registration.socketNumber) in its process" + descriptor,
                "ipc://\(report.registration.socketPath) for other processes",
            ]
        }

        private func messages(_ count: Int) -> String { "\(count) message\(count == 1 ? "" : "s")" }

        private func rows(_ report: PortReport) -> [(title: String, text: String)] {
            func rows(_ title: String, _ texts: [String]) -> [(title: String, text: String)] {
                texts.enumerated().map { ($0 == 0 ? title : "", $1.escaped) }
            }
            var found = rows("socket", sockets(of: report))
            if let info = report.info {
                let isUnserved = info.isUnserved
                let takers = info.takerTexts.map { (isUnserved ? "not by " : "by ") + $0 }
                found += rows("served", (isUnserved ? ["no: the port is unserved"] : []) + takers)
                if !info.takers.hasHandler, info.isUnserved { found += rows("handler", ["none"]) }
                let taken = info.takenInSample
                let asked = info.requests.count + info.requests.lasting
                found += rows(
                    "senders",
                    info.senders.prefix(10).map {
                        "\($0.program ?? "?") (pid \($0.pid)): "
                            + ($0.sent == 0 ? "an unknown number of messages" : messages($0.sent))
                            + (taken > 0 ? ", \($0.taken) of the last \(taken) taken" : "")
                            + ($0.requests > 0 ? ", \($0.requests) of \(asked) requests in progress" : "")
                            + ($0.withDescriptors > 0 ? ", \($0.withDescriptors) with descriptors wait" : "")
                            + ($0.memory > 0 ? ", \($0.memory) bytes wait in memory of their own" : "")
                            + way(of: $0, to: report) + ($0.hasEnded ? ", and has ended" : "")
                    })
                found += rows("handling", info.handling.map(\.description))
                found += rows("requests", texts(of: info.requests))
                found += rows("awaits", info.awaited.prefix(10).map(\.description))
            }
            found += rows("state", [report.state])
            let trouble = report.trouble ?? report.info?.troubleWithRemedy
            if let trouble {
                found += rows("trouble", [trouble.text]) + rows("remedy", trouble.remedy.map { [$0] } ?? [])
            }
            return found
        }
    }
#endif
