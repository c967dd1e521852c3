import Ports
import RunLoops

/// The recordings of a port's loops, put together as their parts come.
struct ReceivedRecordings {
    private(set) var all: [LoopRecording] = []
    private var (partCount, spanCount) = (0, 0)

    // An owner sends no more than that.
    private static let mostParts = 1024
    private static let mostSpans = 1 << 18

    /// - Returns: False when the owner has sent more than it may.
    mutating func take(_ part: RecordingPart) -> Bool {
        if part.number == all.count, all.count < PortQuestion.mostRecordings {
            all.append(part.recording.checked)
        } else if let last = all.indices.last, part.number == last {
            all[last].spans += all[last].checked(part.recording.spans)
        }
        (partCount, spanCount) = (partCount + 1, spanCount + part.recording.spans.count)
        return partCount < Self.mostParts && spanCount < Self.mostSpans
    }
}

extension LoopRecording {
    /// A recording whose end and spans are possible, whatever another process has written.
    fileprivate var checked: LoopRecording {
        var recording = self
        recording.end = min(max(start, end), start + .seconds(1_000_000))
        recording.spans = recording.checked(spans)
        return recording
    }

    /// Spans that lie in the recording, at depths that a loop can have.
    fileprivate func checked(_ spans: [Span]) -> [Span] {
        spans.map { span in
            var span = span
            span.depth = min(span.depth, 255)
            span.start = min(max(start, span.start), end)
            span.end = min(max(span.start, span.end), end)
            if var callout = span.callout {
                callout.count = min(max(1, callout.count), 1 << 32)
                span.activity = .callout(callout)
            }
            return span
        }
    }
}
