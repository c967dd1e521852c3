import RunLoops

extension MachPort.SendRight {
    /// Has the port's owner record the loops that have the port, as a `LoopRecorder` does, for some time: at
    /// most eight loops, and the newest 32,768 events of each. The library in the owner's process answers, on a thread of
    /// its own. Without a loop, as for a port of a queue or of tasks, there is no recording.
    ///
    /// The instants of the recordings are those of the machine's monotonic clock, as in this process.
    /// - Parameters:
    ///   - duration: How long the owner records: zero to a minute.
    ///   - deadline: The end of the wait for the recordings, nil for five seconds after their end.
    /// - Throws: ``PortError``: `receiveTimedOut` when the owner does not answer, as one that is stopped; `busy` when it
    ///   makes four other recordings; `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func recordings(
        for duration: Duration = .seconds(5), before deadline: ContinuousClock.Instant? = nil
    ) throws(PortError) -> [LoopRecording] {
        let inspection = try inspection(for: duration, deadline)
        var recordings = ReceivedRecordings()
        try inspection.begin()
        while try recordings.take(inspection.next()) {}
        return recordings.all
    }

    /// Has the owner record the loops of the port as the form that blocks does, suspending the task. Throws also
    /// `CancellationError`.
    public nonisolated(nonsending) func recordings(
        for duration: Duration = .seconds(5), before deadline: ContinuousClock.Instant? = nil
    ) async throws -> [LoopRecording] {
        let inspection = try inspection(for: duration, deadline)
        var recordings = ReceivedRecordings()
        try await inspection.begin()
        while try await recordings.take(inspection.next()) {}
        return recordings.all
    }

    private func inspection(
        for duration: Duration, _ deadline: ContinuousClock.Instant?
    ) throws(PortError) -> Inspection {
        try PortError.check("duration", duration, in: .zero...PortRecording.longest)
        return try Inspection(of: channel, .recordings, before: deadline ?? .now + duration + .seconds(5)) {
            $0.write(duration)
        }
    }
}

/// Recordings, as their parts come.
struct ReceivedRecordings {
    private(set) var all: [LoopRecording] = []
    private var (count, size) = (0, 0)

    /// More parts, or more bytes, than an owner sends: its answer is not believed.
    private static let mostParts = 1024
    private static let mostBytes = 64 << 20

    /// Whether more parts follow.
    mutating func take(_ part: (bytes: [UInt8], isLast: Bool)) -> Bool {
        if part.isLast { return false }
        let received = RecordingPart(bytes: part.bytes)
        if received.number == all.count, all.count < PortRecording.mostLoops {
            all.append(received.recording.checked)
        } else if let last = all.indices.last, received.number == last {
            all[last].spans += all[last].checked(received.recording.spans)
        }
        (count, size) = (count + 1, size + part.bytes.count)
        return count < Self.mostParts && size < Self.mostBytes
    }
}

extension LoopRecording {
    /// With an end, and spans, that another process may have.
    fileprivate var checked: LoopRecording {
        var recording = self
        recording.end = min(max(start, end), start + .seconds(1_000_000))
        recording.spans = recording.checked(spans)
        return recording
    }

    /// The spans so that they lie in the recording, at depths that a loop can have: another process has written them.
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
