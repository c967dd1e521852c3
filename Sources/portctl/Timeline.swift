import ArgumentParser
import Ports
import RunLoops

struct Timeline: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Record the run loops that serve a port, and draw their passes, callouts and sleeps for a browser.",
        discussion: """
            The owner's process records, for at most a minute: the newest 32,768 events of each loop. The page loads nothing.
            """)

    @OptionGroup var port: NameArgument
    @Option(name: .shortAndLong, seconds: "Seconds to record.")
    var seconds = Seconds(.seconds(5))
    @OptionGroup var file: PageFile
    @OptionGroup var output: JSONFlag

    func run() throws {
        if !output.isJSON { try file.check(default: "timeline.html") }
        let right = try port.right(before: .now + .seconds(5))
        if let service = try? right.service(observing: .zero), service.loops.isEmpty {
            throw NoLoop(name: port.name, takers: service.takers)
        }
        let recordings = try right.recordings(for: seconds.duration)
        if output.isJSON { return print("\(JSON.array(recordings.map(\.json)))") }
        let owner = try PortNameServer.shared.registration(forName: port.name)?.pid
        let subject = "“\(port.name)”" + (owner.map { " of process \($0)" } ?? "")
        for recording in recordings { print("\(recording.shown)") }
        // A loop may be well, and not serve the port.
        if let trouble = try? awaited({ await Look.trouble(of: port.name) }) {
            Portctl.report("“\(port.name)”: \(trouble)")
        }
        try file.write(TimelinePage(subject: subject, recordings: recordings).html, default: "timeline.html")
    }
}

/// There is nothing to record.
private struct NoLoop: Problem {
    let name: String
    let takers: [String]

    var description: String {
        let state = takers.isEmpty ? "unserved" : "served by " + takers.joined(separator: ", and by ")
        return """
            no run loop serves “\(name)”, so there is no timeline: it is \(state); portctl monitor shows its messages
            """
    }
}

extension LoopRecording {
    /// With names of printable characters: none of them begins a line.
    var shown: LoopRecording {
        var (shown, known): (LoopRecording, [String: String]) = (self, [:])
        func text(_ name: String) -> String {
            let text = known[name] ?? name.escaped
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
        func time(_ duration: Duration) -> JSON { .integer(nanoseconds(duration)) }
        let totals = totals
        return .object([
            ("loop", .string(loop)), ("nanoseconds", time(duration)), ("dropped", .integer(dropped)),
            ("asleep", time(totals.asleep)), ("inCallouts", time(totals.inCallouts)),
            ("ownWork", time(totals.ownWork)), ("elsewhere", time(totals.elsewhere)),
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
                            ("start", time(start.duration(to: span.start))),
                            ("nanoseconds", time(span.duration)),
                            ("begun", .bool(span.isBeginningKnown)), ("over", .bool(span.isOver)),
                        ]
                        return .object(members)
                    })
            ),
        ])
    }
}
