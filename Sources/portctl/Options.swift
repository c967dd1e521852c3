import ArgumentParser
import Glibc
import Ports
import RunLoops
import Synchronization

struct NameArgument: ParsableArguments {
    @Argument(
        help: "The port's name.",
        completion: .custom { _, _, _ in ((try? PortNameServer.shared.found()) ?? []).map(\.name).sorted() })
    var name: String

    /// Finds the port. A live owner that does not answer before the deadline counts as a timeout.
    func right(before deadline: ContinuousClock.Instant) throws -> MachPort.SendRight {
        try Self.right(of: name, before: deadline)
    }

    static func right(of name: String, before deadline: ContinuousClock.Instant) throws -> MachPort.SendRight {
        let outcome = Result { () throws(PortError) in try PortNameServer.shared.port(forName: name, before: deadline) }
        if case .failure(let error) = outcome, case .cannotConnect = error, deadline <= .now {
            throw Portctl.timeout(error)
        }
        return try outcome.get()
    }
}

struct JSONFlag: ParsableArguments {
    @Flag(name: .customLong("json"), help: "Write JSON. The page “portctl” of the documentation lists the fields.")
    var isJSON = false
}

struct MessageArguments: ParsableArguments {
    @Option(help: "The message's id.")
    var id: UInt32 = 0

    @Argument(help: "The data; - reads the standard input. Without this argument the message has no data.")
    var data: String?

    func bytes(upTo limit: Int, for name: String) throws -> [UInt8]? {
        guard data == "-" else { return data.map { Array($0.utf8) } }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw PortError.transport(call: "read of the standard input", errno: errno) }
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
            guard bytes.count <= limit else {
                throw TooLarge(
                    description: "the data is too large for “\(name)”, which takes \(limit) bytes: raise its limits")
            }
        }
    }
}

private struct TooLarge: Problem { let description: String }

struct Repetition: ParsableArguments {
    @Option(name: [.short, .customShort("n"), .long], help: "How many times; without end by default.")
    var count: Int?
    @Option(name: .shortAndLong, seconds: "Seconds from one to the next.")
    var interval = Seconds(.seconds(1))

    func validate() throws { if let count, count < 1 { throw ValidationError("The count begins with 1.") } }

    /// Calls the body with 1, 2 and so on, until it returns false, the count is reached, SIGINT or SIGTERM comes, or a key
    /// at the terminal says so. A terminal whose window has changed calls `redraw`.
    func run(
        on terminal: Terminal? = nil, redraw: () -> Void = {}, _ body: (_ number: Int) throws -> Bool
    ) throws {
        let events = Events()
        let thread = try RunLoopThread(name: "signals")
        for signal in [SIGINT, SIGTERM] { try thread.loop.add(.signal(signal) { _ in events.tell(.end) }) }
        try terminal?.watch(in: thread.loop) { events.tell($0) }
        var (number, next) = (1, MonotonicInstant.now)
        repeats: while try body(number), number != count {
            number += 1
            next = max(next + interval.duration, .now)
            while let event = events.next(before: next) {
                if case .end = event { break repeats }
                redraw()
            }
        }
        thread.stop()
    }
}

/// What the signals and the terminal tell.
private final class Events: Sendable {
    private struct State {
        var events: [Terminal.Event] = []
        var wait: Latch?
    }

    private let state = Mutex(State())

    func tell(_ event: Terminal.Event) {
        let wait = state.withLock { state in
            state.events.append(event)
            return state.wait.take()
        }
        wait?.open()
    }

    func next(before deadline: MonotonicInstant) -> Terminal.Event? {
        while true {
            let latch = Latch()
            let event = state.withLock { state -> Terminal.Event? in
                if state.events.isEmpty { state.wait = latch }
                return state.events.isEmpty ? nil : state.events.removeFirst()
            }
            if event != nil { return event }
            if !latch.wait(until: deadline) { return nil }
        }
    }
}

struct Seconds: CustomStringConvertible {
    let duration: Duration

    init(_ duration: Duration) { self.duration = duration }

    init(argument: String) throws {
        guard let seconds = Double(argument), seconds >= 0, seconds < 1e9 else {
            throw ValidationError("a time is a number of seconds, 0 or more")
        }
        duration = .seconds(seconds)
    }

    var description: String { "\(duration / .seconds(1))" }
    var deadline: ContinuousClock.Instant { .now + duration }
}

// The word after the option is its value also when it begins with a dash: the error is about the value then.

extension Option<Seconds> {
    init(wrappedValue: Seconds, name: NameSpecification = .long, seconds help: ArgumentHelp) {
        var help = help
        help.abstract += " (default: \(wrappedValue))"
        self.init(
            wrappedValue: wrappedValue, name: name, parsing: .unconditional, help: help,
            transform: { try Seconds(argument: $0) })
    }
}

extension Option<Seconds?> {
    init(seconds help: ArgumentHelp) {
        self.init(parsing: .unconditional, help: help, transform: { try Seconds(argument: $0) })
    }
}
