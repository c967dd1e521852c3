import ArgumentParser
import Glibc
import Ports
import RunLoops
import Synchronization

struct Monitor: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the messages of ports as they pass, until interrupted.",
        discussion: """
            Each line has the time, the port's name, the message's number, and what happened: message or request, when a \
            loop, a queue, a task or a thread has taken one, with the type of a typed request, its id, its size and its \
            sender; handled, when the handler has returned; reply, when the reply was sent; failure, when the handler has \
            thrown; cancelled, when the asker has given up; unanswered, when there will be no reply; the last five with the time since the message was taken. At \
            the end, a summary goes to the standard error. The owners of the ports do the work, which costs them little: of a flood they show \
            some thousand messages in a second, and count those that are left out. The exit status is 4 when all ports have \
            ended.
            """)

    @Argument(
        help: "The ports' names.",
        completion: .custom { _, _, _ in ((try? PortNameServer.shared.registrations()) ?? []).map(\.name).sorted() })
    var names: [String]
    @Option(help: "Only messages with this id.")
    var id: UInt32?
    @Option(help: "Only messages of this process, or of this program: its path, or the last part of that.")
    var from: String?
    @Option(help: "Only messages with so many bytes or more.")
    var minSize = 0
    @Option(name: [.short, .customShort("n"), .long], help: "End after so many lines.")
    var count: Int?
    @Option(seconds: "End after so many seconds.")
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
        // All are there before the first line.
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
                    Portctl.report("the port “\(name)” has ended")
                } catch {
                    if !(error is CancellationError) { Portctl.report(error) }
                }
                lines.sourceEnded()
            }
        }
        let end = seconds.map { MonotonicInstant.now + $0.duration } ?? .distantFuture
        while !lines.wait(until: min(end, .now + .seconds(1))), !end.hasPassed { endUnread() }
        // What is cancelled ends, too.
        let haveEnded = lines.areAllSourcesEnded
        lines.end()
        for task in tasks { task.cancel() }
        if !output.isJSON { for name in names { Portctl.report("“\(name)”: \(lines.tally(of: name).text)") } }
        if haveEnded { throw ExitCode(4) }
    }
}

/// The lines of all monitors, one at a time.
private final class Lines: Sendable {
    private struct State {
        var left: Int
        var sources = 0
        /// By the ports' names.
        var tallies: [String: Tally] = [:]
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

    func tally(of name: String) -> Tally { state.withLock { $0.tallies[name] ?? Tally() } }

    /// Returns at the end of the port.
    func follow(_ monitor: PortMonitor, of name: String) async throws {
        var (lost, nextLook) = (0, MonotonicInstant.distantPast)
        while true {
            // What is in progress, or stuck, shows nothing. A look takes time that no event waits for.
            if nextLook.hasPassed {
                nextLook = .now + .seconds(30)
                Task {
                    // The end of portctl itself leaves the look without an answer.
                    if let trouble = await Look.trouble(of: name), !isOver { Portctl.report("“\(name)”: \(trouble)") }
                }
            }
            do {
                guard let event = try await monitor.next(before: .now + .seconds(1)) else { return }
                add(isJSON ? "\(event.json(of: name))" : event.line(of: name), of: name) { $0.add(event) }
            } catch PortError.receiveTimedOut {}
            // What is lost is told also when nothing comes after.
            let new = monitor.lostCount - lost
            if new > 0 { add(lost: new, of: name) }
            lost += new
        }
    }

    private func add(lost: Int, of name: String) {
        let object = JSON.object([("name", .string(name)), ("event", .string("lost")), ("count", .integer(lost))])
        add(
            isJSON
                ? "\(object)"
                : "… \(lost) event\(lost == 1 ? "" : "s") of \(name.escaped) left out: they came too fast, or are read too slowly",
            of: name
        ) { $0.add(lost: lost) }
    }

    private func add(_ line: String, of name: String, _ count: (inout Tally) -> Void) {
        let isLast = state.withLock { state in
            guard state.left > 0 else { return false }
            state.left -= 1
            count(&state.tallies[name, default: Tally()])
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

    func json(of name: String) -> JSON {
        .object([
            ("name", .string(name)), ("event", .string(kind.rawValue)), ("number", .integer(number)),
            ("time", .number("\(self.time)")), ("id", .integer(Int(id))), ("type", .string(self.name)),
            ("size", .integer(size)),
            ("sizes", .array(sizes.map { .integer($0) })), ("ports", .integer(ports)), ("pid", .integer(Int(sender))),
            ("program", .string(program)), ("milliseconds", .number(duration.map(milliseconds))),
        ])
    }
}
