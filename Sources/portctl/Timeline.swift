import ArgumentParser
import Glibc
import Ports
import RunLoops

struct PageFile: ParsableArguments {
    @Option(name: .shortAndLong, help: "The file; - writes to the standard output.", completion: .file())
    var output: String?

    func write(_ html: String, default name: String) throws {
        let path = output ?? name
        if path == "-" { return portctl.write(html.utf8) }
        guard let file = fopen(path, "w") else { throw CannotWrite(path: path, errno: errno) }
        let bytes = Array(html.utf8)
        let count = fwrite(bytes, 1, bytes.count, file)
        let isClosed = fclose(file) == 0
        guard count == bytes.count, isClosed else { throw CannotWrite(path: path, errno: errno) }
        print("wrote \(printable(path)): open it in a browser")
    }
}

private struct CannotWrite: Error, CustomStringConvertible {
    let path: String
    let errno: Int32
    var description: String { "cannot write \(printable(path)): \(String(cString: strerror(errno)))" }
}

struct Timeline: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Record the run loops that serve a port, and draw their passes, callouts and sleeps for a browser.",
        discussion: """
            The owner's process records, for at most a minute: the newest 32,768 events of each loop. The page loads nothing.
            """)

    @OptionGroup var port: NameArgument
    @Option(name: .shortAndLong, help: "Seconds to record.")
    var seconds = Seconds(.seconds(5))
    @OptionGroup var file: PageFile
    @OptionGroup var output: JSONFlag

    func run() throws {
        let right = try port.right(before: .now + .seconds(5))
        let recordings = try right.recordings(for: seconds.duration)
        if output.isJSON { return print("\(JSON.array(recordings.map(\.json)))") }
        let owner = try PortNameServer.shared.registration(forName: port.name)?.pid
        let subject = "“\(port.name)”" + (owner.map { " of process \($0)" } ?? "")
        for recording in recordings { print("\(recording.shown)") }
        if recordings.isEmpty { print("no run loop serves the port: portctl info says what does") }
        try file.write(TimelinePage(subject: subject, recordings: recordings).html, default: "timeline.html")
    }
}

struct Map: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Draw for a browser which processes send to which named ports, and which ports are in trouble.")

    @OptionGroup var file: PageFile
    @Option(help: "Seconds to wait for owners that do not answer.")
    var timeout = Seconds(.seconds(2))
    @OptionGroup var output: JSONFlag

    func run() throws {
        let timeout = timeout.duration
        let map = try awaited { try await PortNameServer.shared.map(before: .now + timeout) }
        if output.isJSON { return print("\(map.json)") }
        try file.write(MapPage(PortDrawing(map)).html, default: "map.html")
    }
}

/// What an asynchronous call returns or throws.
private func awaited<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
    let outcome = Outcome<Value>()
    Task.detached {
        let result: Result<Value, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        outcome.set(result)
    }
    return try outcome.wait().get()
}

private final class Outcome<Value: Sendable>: @unchecked Sendable {
    // Sound: the latch is opened after the only write, and waited for before the read.
    private var result: Result<Value, any Error>?
    private let latch = Latch()

    func set(_ result: Result<Value, any Error>) {
        self.result = result
        latch.open()
    }

    func wait() -> Result<Value, any Error> {
        _ = latch.wait(until: .distantFuture)
        return result ?? .failure(ExitCode(1))
    }
}

extension LoopRecording {
    /// With names of printable characters: none of them begins a line.
    var shown: LoopRecording {
        var (shown, known): (LoopRecording, [String: String]) = (self, [:])
        func text(_ name: String) -> String {
            let text = known[name] ?? printable(name)
            known[name] = text
            return text
        }
        shown.loop = text(loop)
        for (index, span) in spans.enumerated() {
            shown.spans[index].mode = span.mode.map { ThreadRunLoop.Mode(text($0.rawValue)) }
            guard var callout = span.callout else { continue }
            callout.label = callout.label.map(text)
            shown.spans[index].activity = .callout(callout)
        }
        return shown
    }

    var json: JSON {
        func nanoseconds(_ duration: Duration) -> JSON { .integer(Int(clamping: duration.attoseconds / 1_000_000_000)) }
        let totals = totals
        return .object([
            ("loop", .string(loop)), ("nanoseconds", nanoseconds(duration)), ("dropped", .integer(dropped)),
            ("asleep", nanoseconds(totals.asleep)), ("inCallouts", nanoseconds(totals.inCallouts)),
            ("ownWork", nanoseconds(totals.ownWork)), ("elsewhere", nanoseconds(totals.elsewhere)),
            (
                "spans",
                .array(
                    spans.map { span in
                        var members: [(String, JSON)] =
                            switch span.activity {
                            case .pass: [("activity", .string("pass"))]
                            case .sleep(let sleep):
                                [
                                    ("activity", .string(sleep.isPolling ? "polling" : "sleep")),
                                    ("wakeUp", .string(sleep.wakeUp?.rawValue)),
                                ]
                            case .callout(let callout):
                                [
                                    ("activity", .string(callout.kind.rawValue)), ("label", .string(callout.label)),
                                    ("count", .integer(callout.count)),
                                ]
                            }
                        members += [
                            ("mode", .string(span.mode?.rawValue)), ("depth", .integer(span.depth)),
                            ("start", nanoseconds(start.duration(to: span.start))),
                            ("nanoseconds", nanoseconds(span.duration)),
                            ("begun", .bool(span.isBeginningKnown)), ("over", .bool(span.isOver)),
                        ]
                        return .object(members)
                    })
            ),
        ])
    }
}

extension PortMap {
    fileprivate var json: JSON {
        .object([
            (
                "processes",
                .array(
                    processes.map {
                        .object([
                            ("pid", .integer(Int($0.pid))), ("program", .string($0.program)),
                            ("answers", .bool($0.answers)), ("ended", .bool($0.hasEnded)),
                        ])
                    })
            ),
            (
                "ports",
                .array(
                    ports.map {
                        .object([
                            ("id", .string($0.id)), ("names", .array($0.names.map { .string($0) })),
                            ("owner", .integer(Int($0.owner))), ("state", .string($0.service?.condition.rawValue)),
                            ("service", $0.service?.json ?? .string(nil)),
                        ])
                    })
            ),
            (
                "edges",
                .array(
                    edges.map {
                        .object([
                            ("sender", .integer(Int($0.sender))), ("port", .string($0.port)),
                            ("sent", .integer($0.sent)),
                            ("recently", .integer($0.recently)), ("awaitedReplies", .integer($0.awaitedReplies)),
                            ("waitingSenders", .integer($0.waitingSenders)),
                        ])
                    })
            ),
        ])
    }
}
