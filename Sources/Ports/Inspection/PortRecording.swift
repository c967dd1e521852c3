import RunLoopLocks
import RunLoops

/// Records the loops that have a port, for some time, and then sends the recordings.
final class PortRecording: Sendable {
    /// Nil after the end.
    private let state: Lock<(recorders: [LoopRecorder], answer: InspectionAnswer)?>

    /// The longest recording, the most loops of a port, and the events of a loop: half a megabyte.
    static let longest = Duration.seconds(60)
    static let mostLoops = 8
    private static let capacity = 32_768
    /// The spans of a message to the asker.
    private static let spansOfPart = 512

    init(of loops: [ThreadRunLoop], to answer: InspectionAnswer) {
        // One that ends now has nothing to tell.
        let recorders = loops.prefix(Self.mostLoops).compactMap { try? LoopRecorder($0, capacity: Self.capacity) }
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
        let whole = RecordingPart(number: number, recording: recording)
        return stride(from: 0, to: max(1, recording.spans.count), by: Self.spansOfPart).map { first in
            var part = whole
            part.recording.spans = Array(recording.spans.dropFirst(first).prefix(Self.spansOfPart))
            return part
        }
    }

    /// One after another, each from the loop of the housekeeping thread: the asker takes a part before the next is made.
    private func send(_ parts: ArraySlice<RecordingPart>, _ answer: InspectionAnswer) {
        guard let part = parts.first else { return answer.end(.last) }
        answer.send(.part, part.bytes) { isSent in
            guard isSent, answer.asker.isValid else { return }
            try? answer.asker.channels.housekeeping.perform { self.send(parts.dropFirst(), answer) }
        }
    }
}

/// A recording with some of its spans.
struct RecordingPart {
    /// Which of the port's loops was recorded.
    var number: Int
    var recording: LoopRecording
}
