#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports
    import PortsInspection
    import RunLoops
    import Synchronization

    struct Monitor: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the messages of ports as they pass, until interrupted.",
            discussion: """
                Each line has the time, the port's name, the message's number, and what happened: message or request, when a \
                loop, a queue, a task or a thread has taken one, with the type of a typed request, its id, its size and its \
                sender; handled, when the handler has returned; reply, when the reply was sent; failure, when the handler has \
                thrown; cancelled, when the asker has given up; unanswered, when there will be no reply; the last five with the \
                time since the message was taken. At the end, a summary goes to the standard error. The owners of the ports do \
                the work, which costs them little: they show some thousand messages of a flood in a second, and count those \
                that are left out. The exit status is 4 when all ports have ended.
                """)

        @Argument(help: "The ports' names.", completion: .names)
        var names: [String]
        @Option(help: "Only messages with this id.")
        var id: UInt32?
        @Option(help: "Only messages of this process, or of this program: its path, or the last part of that.")
        var from: String?
        @Option(help: "Only messages with this number of bytes or more.")
        var minSize = 0
        @Option(name: [.short, .customShort("n"), .long], help: "End after this number of lines.")
        var count: Int?
        @Option(seconds: "End after this number of seconds.")
        var seconds: Seconds?
        @Option(seconds: "Seconds to wait for each owner.")
        var timeout = Seconds(.seconds(5))
        @OptionGroup var output: JSONFlag

        func validate() throws {
            if names.isEmpty { throw ValidationError("Name one port, or more.") }
            if let count, count < 1 { throw ValidationError("The count begins with 1.") }
            if minSize < 0 { throw ValidationError("The size begins with 0.") }
        }

        func run() throws {
            let pid = from.flatMap { Int32($0) }
            let filter = PortEvent.Filter(id: id, sender: pid, program: pid == nil ? from : nil, minimumSize: minSize)
            let lines = Lines(count: count, isJSON: output.isJSON)
            let thread = try RunLoopThread(name: "signals")
            for signal in [SIGINT, SIGTERM] { try thread.loop.add(.signal(signal) { _ in lines.end() }) }
            // All monitors begin before the first line.
            let monitors = try names.map { name in
                let right = try NameArgument.right(of: name, before: timeout.deadline)
                return (name: name, monitor: try PortMonitor(right, filter: filter, before: timeout.deadline))
            }
            if !output.isJSON {
                print("portctl: monitoring \(names.map(\.escaped).joined(separator: ", "))", to: STDERR_FILENO)
            }
            lines.expect(monitors.count)
            let tasks = monitors.map { name, monitor in
                Task.detached {
                    do {
                        try await lines.follow(monitor, of: name)
                        report("the port “\(name)” has ended")
                    } catch {
                        if !(error is CancellationError) { report(error) }
                    }
                    lines.sourceEnded()
                }
            }
            let end = seconds.map { MonotonicInstant.now + $0.duration } ?? .distantFuture
            while !lines.wait(until: min(end, .now + .seconds(1))), !end.hasPassed { endUnread() }
            // Cancelled tasks also count as ended.
            let haveEnded = lines.areAllSourcesEnded
            lines.end()
            for task in tasks { task.cancel() }
            if !output.isJSON { for name in names { report("“\(name)”: \(lines.tally(of: name).text)") } }
            if haveEnded { throw ExitCode(4) }
        }
    }

    /// The lines of all monitors, one at a time.
    private final class Lines: Sendable {
        private struct State {
            var left: Int
            var sources = 0
            /// By the ports' names.
            var tallies: [String: EventTally] = [:]
        }

        private let state: Mutex<State>
        private let isJSON: Bool
        private let over = Latch()

        init(count: Int?, isJSON: Bool) {
            state = Mutex(State(left: count ?? .max))
            self.isJSON = isJSON
        }

        func expect(_ count: Int) { state.withLock { $0.sources = count } }
        func end() { over.open() }
        func sourceEnded() {
            state.withLock { $0.sources -= 1 }
            if areAllSourcesEnded { end() }
        }
        var areAllSourcesEnded: Bool { state.withLock { $0.sources == 0 } }
        func wait(until deadline: MonotonicInstant) -> Bool { over.wait(until: deadline) }
        private var isOver: Bool { wait(until: .distantPast) }

        func tally(of name: String) -> EventTally { state.withLock { $0.tallies[name] ?? EventTally() } }

        /// Returns at the end of the port.
        func follow(_ monitor: PortMonitor, of name: String) async throws {
            var (lost, nextReport) = (0, MonotonicInstant.distantPast)
            while true {
                // A message in progress, or a stuck port, shows no event. The report takes time that no event waits for.
                if nextReport.hasPassed {
                    nextReport = .now + .seconds(30)
                    Task {
                        // The end of portctl itself leaves the question without an answer.
                        if let trouble = await PortReport.trouble(of: name), !isOver {
                            report("“\(name)”: \(trouble)")
                        }
                    }
                }
                do {
                    guard let event = try await monitor.next(before: .now + .seconds(1)) else { return }
                    let line = isJSON ? json(NamedEvent(name: name, event: event)) : event.line(of: name)
                    add(line, of: name) { $0.add(event) }
                } catch PortError.receiveTimedOut {}
                // Lost events are shown also when no event comes after them.
                let new = monitor.lostCount - lost
                if new > 0 { add(lost: new, of: name) }
                lost += new
            }
        }

        private func add(lost: Int, of name: String) {
            let events = "\(lost) event\(lost == 1 ? "" : "s") of \(name.escaped)"
            let line =
                isJSON
                ? json(LostEvents(name: name, count: lost))
                : "… \(events) left out: they came too fast, or are read too slowly"
            add(line, of: name) { $0.add(lost: lost) }
        }

        private func add(_ line: String, of name: String, _ count: (inout EventTally) -> Void) {
            let isLast = state.withLock { state in
                guard state.left > 0 else { return false }
                state.left -= 1
                count(&state.tallies[name, default: EventTally()])
                // Under the lock, so that lines come in their order.
                print(line)
                return state.left == 0
            }
            if isLast { end() }
        }
    }

    extension PortEvent {
        func line(of name: String) -> String {
            let subject = self.name.map { "\($0.escaped) (id \(id))" } ?? "id \(id)"
            let start = "\(clock)  \(name.escaped)  #\(number) \(kind.rawValue) \(subject)"
            if let duration { return "\(start) after \(milliseconds(duration)) ms" }
            let size = "\(size) byte\(size == 1 ? "" : "s")" + (sizes.count > 1 ? " \(sizes)" : "")
            let rights = ports == 0 ? "" : ports == 1 ? " and a port" : " and \(ports) ports"
            return "\(start), \(size)\(rights), of \(senderText.escaped)"
        }

        private var clock: String {
            let microseconds = Int(self.time * 1e6)
            return clockTime(microseconds / 1_000_000) + "." + padded(microseconds % 1_000_000, to: 6)
        }
    }

    /// An event with the name of its port.
    struct NamedEvent: Encodable {
        let name: String
        let event: PortEvent

        private enum CodingKeys: CodingKey { case name }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(name, forKey: .name)
            try event.encode(to: encoder)
        }
    }

    private struct LostEvents: Encodable {
        let name: String
        var event = "lost"
        let count: Int
    }
#endif
