import Ports
import RunLoops

extension MachPort.SendRight {
    /// Asks the port's owner for the port's statistics. The owner asks all processes that have sent something to the port,
    /// and a sender that does not answer within a tenth of a second counts with its last answer. The library in these
    /// processes answers, on its own thread. Connecting may take up to a second more.
    /// - Throws: `PortError`: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func statistics(
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(PortError) -> PortStatistics {
        try PendingQuestion(.statistics, to: self, before: deadline).answer()
    }

    /// Asks the port's owner for the port's statistics, suspending the task. The owner asks all processes that have sent
    /// something to the port, and a sender that does not answer within a tenth of a second counts with its last answer.
    /// - Throws: `PortError`: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…; `CancellationError`.
    public nonisolated(nonsending) func statistics(
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws -> PortStatistics {
        try Task.checkCancellation()
        return try await PendingQuestion(.statistics, to: self, before: deadline).answer()
    }

    /// Asks the port's owner who serves the port, and how that goes. The library in the owner's process answers, on a
    /// thread of its own. While messages wait, or a loop of the port is busy, the owner observes the port for some time,
    /// to see whether anything moves. Connecting may take up to a second more.
    /// - Parameters:
    ///   - duration: The time of the observation: zero to ten seconds.
    ///   - deadline: The end of the wait for the answer.
    /// - Throws: `PortError`: `receiveTimedOut` when the owner does not answer, such as a stopped one; `busy` when it
    ///   answers as many others as it takes; `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func info(
        observing duration: Duration = .milliseconds(300),
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(PortError) -> PortInfo {
        ofOwner(try infoQuestion(duration, deadline).answer())
    }

    /// Asks the port's owner who serves the port, and how that goes, suspending the task. While messages wait, or a loop of
    /// the port is busy, the owner observes the port for some time. Connecting may take up to a second more.
    /// - Parameters:
    ///   - duration: The time of the observation: zero to ten seconds.
    ///   - deadline: The end of the wait for the answer.
    /// - Throws: `PortError`: `receiveTimedOut` when the owner does not answer, such as a stopped one; `busy` when it
    ///   answers as many others as it takes; `isInvalid`, `becameInvalid`, `cannotConnect`…; `CancellationError`.
    public nonisolated(nonsending) func info(
        observing duration: Duration = .milliseconds(300),
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws -> PortInfo {
        try await info(observing: duration, before: deadline, answerAt: nil)
    }

    nonisolated(nonsending) func info(
        observing duration: Duration, before deadline: ContinuousClock.Instant?, answerAt shared: SharedAnswerPort?
    ) async throws -> PortInfo {
        ofOwner(try await infoQuestion(duration, deadline, shared).answer())
    }

    private func infoQuestion(
        _ duration: Duration, _ deadline: ContinuousClock.Instant?, _ shared: SharedAnswerPort? = nil
    ) throws(PortError) -> PendingQuestion {
        try PortError.check("duration", duration, in: .zero...PortQuestion.longestObservation)
        return try PendingQuestion(.info(observing: duration), to: self, before: deadline, answerAt: shared)
    }

    private func ofOwner(_ info: PortInfo) -> PortInfo {
        var info = info
        info.pid = identity.pid ?? 0
        return info
    }

    /// Lets the port's owner record the loops that have the port, as a `LoopRecorder` does, for some time: at most eight
    /// loops, and the newest 32,768 events of each. The library in the owner's process answers, on a thread of its own.
    /// Without a loop, as for a port of a queue or of tasks, there is no recording.
    ///
    /// The instants of the recordings are those of the machine's monotonic clock, as in this process.
    /// - Parameters:
    ///   - duration: The time of the recording: zero to a minute.
    ///   - deadline: The end of the wait for the recordings, nil for five seconds after their end.
    /// - Throws: `PortError`: `receiveTimedOut` when the owner does not answer, such as a stopped one; `busy` when it makes
    ///   four other recordings; `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func recordings(
        for duration: Duration = .seconds(5), before deadline: ContinuousClock.Instant? = nil
    ) throws(PortError) -> [LoopRecording] {
        let question = try recordingsQuestion(duration, deadline)
        var recordings = ReceivedRecordings()
        try question.ask()
        while let part: RecordingPart = try question.next(before: question.deadline), recordings.take(part) {}
        return recordings.all
    }

    /// Lets the port's owner record the loops that have the port for some time, suspending the task: at most eight loops,
    /// and the newest 32,768 events of each. Without a loop there is no recording.
    /// - Parameters:
    ///   - duration: The time of the recording: zero to a minute.
    ///   - deadline: The end of the wait for the recordings, nil for five seconds after their end.
    /// - Throws: `PortError`: `receiveTimedOut` when the owner does not answer, such as a stopped one; `busy` when it makes
    ///   four other recordings; `isInvalid`, `becameInvalid`, `cannotConnect`…; `CancellationError`.
    public nonisolated(nonsending) func recordings(
        for duration: Duration = .seconds(5), before deadline: ContinuousClock.Instant? = nil
    ) async throws -> [LoopRecording] {
        let question = try recordingsQuestion(duration, deadline)
        var recordings = ReceivedRecordings()
        try await question.ask()
        while let part: RecordingPart = try await question.next(before: question.deadline), recordings.take(part) {}
        return recordings.all
    }

    private func recordingsQuestion(
        _ duration: Duration, _ deadline: ContinuousClock.Instant?
    ) throws(PortError) -> PendingQuestion {
        try PortError.check("duration", duration, in: .zero...PortQuestion.longestRecording)
        let deadline = deadline ?? .now + duration + .seconds(5)
        return try PendingQuestion(.recordings(for: duration), to: self, before: deadline)
    }
}
