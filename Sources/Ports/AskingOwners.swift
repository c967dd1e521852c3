import RunLoops

extension MachPort {
    /// The state of a port's queue.
    public typealias Statistics = PortStatistics
}

extension MachPort.SendRight {
    /// Asks the port's owner for a sign of life, and returns the round-trip time. The library in the owner's process
    /// answers on its own thread, so the answer does not tell whether the owner handles its messages. The first ping
    /// includes the time to connect, which may take up to a second more.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func ping(before deadline: ContinuousClock.Instant? = .now + .seconds(5)) throws(PortError) -> Duration {
        let question = try Question(to: channel, before: deadline)
        defer { withExtendedLifetime(question.runtime) {} }
        let (start, probe) = (MonotonicInstant.now, channel.probeOwner())
        try channel.connectToOwner(before: question.connectDeadline)
        _ = probe.invalidated.wait(until: question.deadline)
        try question.check(probe.invalidated.value)
        return .now - start
    }

    /// Asks for a sign of life as the form that blocks does, suspending the task. Throws also `CancellationError`.
    public nonisolated(nonsending) func ping(
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws -> Duration {
        try Task.checkCancellation()
        let question = try Question(to: channel, before: deadline)
        defer { withExtendedLifetime(question.runtime) {} }
        let (start, probe) = (MonotonicInstant.now, channel.probeOwner())
        try await channel.connectToOwner(before: question.connectDeadline)
        _ = try await probe.invalidated.value(before: question.deadline, on: question.runtime.housekeeping)
        try question.check(probe.invalidated.value)
        return .now - start
    }

    /// Asks the port's owner for the port's statistics; the owner asks all processes that have sent something to it.
    /// As with `ping(before:)`, the library in these processes answers, and connecting may take up to a second more.
    /// A sender that does not answer within a tenth of a second counts with its last answer.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func statistics(before deadline: ContinuousClock.Instant? = .now + .seconds(5)) throws(PortError)
        -> PortStatistics
    {
        PortStatistics(bytes: try Inspection(of: channel, .statistics, before: deadline).answer())
    }

    /// Asks for the statistics, suspending the task.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…; `CancellationError`.
    public nonisolated(nonsending) func statistics(
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws -> PortStatistics {
        try Task.checkCancellation()
        return PortStatistics(bytes: try await Inspection(of: channel, .statistics, before: deadline).answer())
    }
}

/// What a question to a port's owner begins and ends with.
private struct Question {
    let runtime: PortRuntime
    let deadline: MonotonicInstant
    /// A live owner needs far less than a second to accept a connection.
    let connectDeadline: MonotonicInstant
    private let channel: SendChannel

    init(to channel: SendChannel, before deadline: ContinuousClock.Instant?) throws(PortError) {
        try Fork.check()
        guard channel.isValid, let runtime = channel.runtime else { throw .isInvalid(port: channel.identity) }
        self.runtime = runtime
        self.channel = channel
        self.deadline = MonotonicInstant(deadline)
        connectDeadline = max(self.deadline, .now + .seconds(1))
    }

    /// Throws unless the owner has answered, and the port is valid.
    func check(_ answer: Void?) throws(PortError) {
        guard answer != nil else { throw channel.noAnswer(.receiveTimedOut(port: channel.identity)) }
        guard channel.isValid else { throw .becameInvalid(port: channel.identity) }
    }
}
