import ArgumentParser
import Ports
import PortsInspection
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
        if let service = try? right.service(observing: .zero), service.takers.loops.isEmpty {
            throw NoLoop(name: port.name, takers: service.takerTexts)
        }
        let recordings = try right.recordings(for: seconds.duration)
        if output.isJSON { return print(json: recordings.map(TimelineDocument.init)) }
        let owner = try PortNameServer.shared.registration(forName: port.name)?.pid
        let subject = "“\(port.name)”" + (owner.map { " of process \($0)" } ?? "")
        for recording in recordings { print("\(recording.shown)") }
        // A loop may be well, and not serve the port.
        if let trouble = try? awaited({ await PortReport.trouble(of: port.name) }) {
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
}

/// A recording as JSON, with times in nanoseconds.
struct TimelineDocument: Encodable {
    let loop: String
    let nanoseconds, dropped: Int
    let asleep, inCallouts, ownWork, elsewhere: Int
    let spans: [Span]

    struct Span: Encodable {
        let activity: String
        let wakeUp, label, mode: String?
        let count: Int?
        let depth, start, nanoseconds: Int
        let begun, over: Bool
    }

    init(_ recording: LoopRecording) {
        let totals = recording.totals
        (loop, dropped) = (recording.loop, recording.dropped)
        nanoseconds = portctl.nanoseconds(recording.duration)
        (asleep, inCallouts) = (portctl.nanoseconds(totals.asleep), portctl.nanoseconds(totals.inCallouts))
        (ownWork, elsewhere) = (portctl.nanoseconds(totals.ownWork), portctl.nanoseconds(totals.elsewhere))
        spans = recording.spans.map { span in
            let (callout, sleep) = (span.callout, span.sleep)
            let sleepText = sleep.map { $0.isPolling ? "polling" : "sleep" }
            return Span(
                activity: callout?.kind.rawValue ?? sleepText ?? "pass", wakeUp: sleep?.wakeUp?.rawValue,
                label: callout?.label, mode: span.mode?.rawValue, count: callout?.count, depth: span.depth,
                start: portctl.nanoseconds(recording.start.duration(to: span.start)),
                nanoseconds: portctl.nanoseconds(span.duration), begun: span.isBeginningKnown, over: span.isOver)
        }
    }
}
