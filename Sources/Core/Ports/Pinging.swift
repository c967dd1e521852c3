import RunLoops

// Signs of life, and questions to a port's owner. The module PortsInspection has the answers.

extension MachPort.SendRight {
    /// Asks the port's owner for a sign of life. The library in the owner's process answers on its own thread, so the
    /// answer does not show whether the owner handles its messages. The first ping includes the time to connect, which may
    /// take up to a second more.
    /// - Returns: The round-trip time.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func ping(before deadline: ContinuousClock.Instant? = .now + .seconds(5)) throws(PortError) -> Duration {
        let ping = try Ping(of: channel, before: deadline)
        try channel.connectToOwner(before: ping.deadline.forConnection)
        _ = ping.probe.invalidated.wait(until: ping.deadline)
        return try ping.time()
    }

    /// Asks the port's owner for a sign of life, suspending the task. The first ping includes the time to connect, which
    /// may take up to a second more.
    /// - Returns: The round-trip time.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…; `CancellationError`.
    public nonisolated(nonsending) func ping(
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws -> Duration {
        try Task.checkCancellation()
        let ping = try Ping(of: channel, before: deadline)
        try await channel.connectToOwner(before: ping.deadline.forConnection)
        _ = try await ping.probe.invalidated.value(before: ping.deadline, on: ping.runtime.housekeeping)
        return try ping.time()
    }

    /// Makes a port that the owner of this one can send answers to. It takes answers of four megabytes at most, so that an
    /// owner cannot fill the asker's memory.
    package func makeAnswerPort() throws(PortError) -> MachPort {
        let channel = channel
        let runtime = try channel.checkedRuntime()
        let path = channel.isLocal ? runtime.directory : channel.path
        return try MachPort(
            queueLimit: 32, messageLimit: 4 << 20, nameServer: PortNameServer(directory: path, runtime: runtime))
    }

    /// Asks the owner. Connecting may take up to a second more than the deadline allows.
    @available(*, noasync)
    package func ask(
        _ question: PortQuestion, answers: MachPort, before deadline: ContinuousClock.Instant?
    ) throws(PortError) {
        let deadline = MonotonicInstant(deadline).forConnection
        try send(question, answers, to: channel.connectToOwner(before: deadline))
    }

    /// Asks the owner, suspending the task. Connecting may take up to a second more than the deadline allows.
    package nonisolated(nonsending) func ask(
        _ question: PortQuestion, answers: MachPort, before deadline: ContinuousClock.Instant?
    ) async throws {
        let deadline = MonotonicInstant(deadline).forConnection
        try send(question, answers, to: await channel.connectToOwner(before: deadline))
    }

    /// - Parameter owner: Nil for a port of this runtime.
    private func send(
        _ question: PortQuestion, _ answers: MachPort, to owner: ControlConnection?
    ) throws(PortError) {
        let answerChannel = answers.receiver.channel
        let packet = QuestionPacket(
            number: channel.id.number,
            answers: try channel.isLocal ? answerChannel.right : answerChannel.exposedRight(),
            question: BoundedCoding.encode(question))
        guard let owner else {
            let runtime = answers.runtime
            return try runtime.housekeeping.perform { runtime.inspector.asked(packet, by: runtime.incarnation) }
        }
        // An owner that does not read its packets does not answer in time, either.
        guard owner.send(.question(packet)) else { throw noAnswer() }
    }

    /// The error for an owner that does not answer in time. The owner may be dead.
    package func noAnswer() -> PortError { channel.noAnswer(.receiveTimedOut(port: identity)) }
}

private struct Ping {
    let channel: SendChannel
    /// Kept until the answer.
    let runtime: PortRuntime
    let deadline: MonotonicInstant
    let start = MonotonicInstant.now
    let probe: SendChannel

    init(of channel: SendChannel, before deadline: ContinuousClock.Instant?) throws(PortError) {
        runtime = try channel.checkedRuntime()
        self.channel = channel
        self.deadline = MonotonicInstant(deadline)
        probe = channel.probeOwner()
    }

    /// The time since the start, when the owner has answered and the port is valid.
    func time() throws(PortError) -> Duration {
        let end = MonotonicInstant.now
        guard probe.invalidated.value != nil else { throw channel.noAnswer(.receiveTimedOut(port: channel.identity)) }
        guard channel.isValid else { throw .becameInvalid(port: channel.identity) }
        return end - start
    }
}

extension SendChannel {
    fileprivate func checkedRuntime() throws(PortError) -> PortRuntime {
        let runtime = try retainedRuntime()
        guard isValid else { throw .isInvalid(port: identity) }
        return runtime
    }
}

extension MonotonicInstant {
    /// A live owner needs far less than a second to accept a connection.
    fileprivate var forConnection: MonotonicInstant { max(self, .now + .seconds(1)) }
}
