import RunLoopLocks
import RunLoops

/// Records the loops that have a port, for some time, and then sends the recordings.
final class RecordingSender: Sendable {
    /// Nil after the end.
    private let state: Lock<(recorders: [LoopRecorder], answer: AnswerSender)?>

    /// The events of a loop, which take half a megabyte.
    private static let capacity = 32_768
    /// The spans of a message to the asker.
    private static let spansOfPart = 512

    init(of loops: [ThreadRunLoop], to answer: AnswerSender) {
        // A loop that has ended cannot be recorded.
        let recorders = loops.prefix(PortQuestion.mostRecordings).compactMap {
            try? LoopRecorder($0, capacity: Self.capacity)
        }
        state = Lock((recorders, answer))
    }

    /// - Returns: Whether this call has ended the recording.
    func end() -> Bool {
        guard let (recorders, answer) = state.withLock({ $0.take() }) else { return false }
        for recorder in recorders { recorder.stop() }
        guard answer.asker.isValid else { return true }
        send(recorders.enumerated().flatMap { parts(of: $1.recording, number: $0) }[...], answer)
        return true
    }

    private func parts(of recording: LoopRecording, number: Int) -> [RecordingPart] {
        stride(from: 0, to: max(1, recording.spans.count), by: Self.spansOfPart).map { first in
            var part = RecordingPart(number: number, recording: recording)
            part.recording.spans = recording.spans.dropFirst(first).prefix(Self.spansOfPart).map(\.bounded)
            return part
        }
    }

    /// One after another, each from the loop of the housekeeping thread: the asker takes a part before the next is made.
    private func send(_ parts: ArraySlice<RecordingPart>, _ answer: AnswerSender) {
        guard let part = parts.first else { return answer.send(.end) }
        answer.send(part) { isSent in
            guard isSent, answer.asker.isValid else { return }
            try? answer.asker.channels.housekeeping.perform { self.send(parts.dropFirst(), answer) }
        }
    }
}

extension LoopRecording.Span {
    /// With a label that fits a message.
    fileprivate var bounded: LoopRecording.Span {
        guard var callout else { return self }
        var span = self
        callout.label = callout.label?.bounded
        span.activity = .callout(callout)
        return span
    }
}
