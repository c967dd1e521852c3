import Ports
import RunLoops

/// Recordings of loops to be drawn.
struct LoopsDrawing: Encodable {
    /// The port and its owner, in words.
    let subject: String
    let recordings: [LoopDrawing]
    /// The totals, the slowest callouts and the items, for a browser without JavaScript.
    let text: String

    private enum CodingKeys: CodingKey { case subject, recordings }

    /// - Parameter recordings: Recordings as they are, whose names may be anything.
    init(subject: String, recordings: [LoopRecording]) {
        let shown = recordings.map(\.shown)
        (self.subject, self.recordings) = (subject, shown.map(LoopDrawing.init))
        text = shown.map { "\($0)\n\n\($0.items.lines().joined(separator: "\n"))" }.joined(separator: "\n\n")
    }
}

/// A recording as JSON. Times are in nanoseconds, and begin with the recording.
struct LoopDrawing: Encodable {
    let loop: String
    let nanoseconds: Int
    let dropped: Int
    let asleep, inCallouts, ownWork, elsewhere: Int
    let spans: [Span]

    struct Span: Encodable {
        let activity: String
        let wakeUp, label, mode: String?
        let count: Int?
        let depth, start, nanoseconds: Int
        /// Whether the span's beginning and its end are in the recording.
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

extension LoopRecording {
    /// The items that took most time.
    fileprivate var items: Table {
        let spans = Dictionary(grouping: callouts) { [$0.callout?.kind.rawValue ?? "", $0.callout?.label ?? ""] }
        let items = spans.map { item, spans in
            let (times, calls) = (spans.map(\.duration), spans.reduce(0) { $0 + ($1.callout?.count ?? 0) })
            return (item, calls: calls, longest: times.max() ?? .zero, total: times.reduce(.zero, +))
        }
        let longest = items.sorted { $0.total > $1.total }.prefix(20)
        return Table(
            rows: [["ITEM", "LABEL", "CALLS", "LONGEST", "TOTAL"]]
                + longest.map { $0.0 + ["\($0.calls)", readable($0.longest), readable($0.total)] })
    }

    /// The recording with printable names, none of which begins a line of its own.
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

func nanoseconds(_ duration: Duration) -> Int { Int(clamping: duration.attoseconds / 1_000_000_000) }
