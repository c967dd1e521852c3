import RunLoops

extension MachPort {
    /// The state of a port's queue.
    public typealias Statistics = PortStatistics
}

extension MachPort.SendRight {
    /// Asks the port's owner for the port's statistics; the owner asks all processes that have sent something to it.
    ///
    /// As with ``ping(before:)``, the library in these processes answers, and connecting may take up to a second more.
    /// A sender that does not answer within a tenth of a second counts with its last answer.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks its thread")
    public func statistics(before deadline: MonotonicInstant = .now + .seconds(5)) throws(PortError)
        -> MachPort.Statistics
    {
        try Fork.check()
        guard isValid, let runtime = channel.runtime else { throw .isInvalid(port: id) }
        defer { withExtendedLifetime(runtime) {} }
        let collector = runtime.statistics
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
