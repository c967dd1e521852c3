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
    @available(*, noasync, message: "it blocks its thread")
    public func ping(before deadline: ContinuousClock.Instant? = .now + .seconds(5)) throws(PortError) -> Duration {
        try Fork.check()
        guard isValid, let runtime = channel.runtime else { throw .isInvalid(port: id) }
        defer { withExtendedLifetime(runtime) {} }
        let (start, deadline) = (MonotonicInstant.now, MonotonicInstant(deadline))
        let probe = channel.probeOwner()
        defer { withExtendedLifetime(probe) {} }
        try channel.connectToOwner(before: max(deadline, .now + .seconds(1)))
        guard probe.invalidated.wait(until: deadline) != nil else { throw channel.noAnswer(.receiveTimedOut(port: id)) }
        let end = MonotonicInstant.now
        guard isValid else { throw .becameInvalid(port: id) }
        return end - start
    }

    /// Asks the port's owner for the port's statistics; the owner asks all processes that have sent something to it.
    /// As with ``ping(before:)``, the library in these processes answers, and connecting may take up to a second more.
    /// A sender that does not answer within a tenth of a second counts with its last answer.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks its thread")
    public func statistics(before deadline: ContinuousClock.Instant? = .now + .seconds(5)) throws(PortError)
        -> PortStatistics
    {
        try Fork.check()
        guard isValid, let runtime = channel.runtime else { throw .isInvalid(port: id) }
        defer { withExtendedLifetime(runtime) {} }
        let collector = runtime.statistics
        let deadline = MonotonicInstant(deadline)
        let owner = try channel.connectToOwner(before: max(deadline, .now + .seconds(1)))
        let query = try collector.ask(id, of: owner)
        defer { collector.remove(query) }
        guard isValid else { throw .becameInvalid(port: id) }
        guard let answer = query.answer.wait(until: deadline) else {
            throw channel.noAnswer(.receiveTimedOut(port: id))
        }
        guard let statistics = answer else { throw .becameInvalid(port: id) }
        return statistics
    }
}
