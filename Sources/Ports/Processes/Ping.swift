import RunLoops
import Synchronization

/// Drawn from for numbers that no port has: ports count up from one.
private let lastPing = Atomic<UInt64>(0)

extension MachPort.SendRight {
    /// Asks the port's owner for a sign of life, and waits for it. Any owner gives one, whatever its ports are for.
    ///
    /// It is the library in the owner's process that answers, on a thread of its own: that the port's messages are
    /// handled, it does not say. The first one includes the time to connect.
    ///
    /// - Parameter deadline: How long to wait. Connecting may take up to a second more.
    /// - Returns: How long the way there and back took.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks its thread")
    public func ping(before deadline: MonotonicInstant = .now + .seconds(5)) throws(PortError) -> Duration {
        try PortProcess.checkUsable()
        guard isValid else { throw .isInvalid(port: description) }
        let start = MonotonicInstant.now
        // Whoever is asked to tell the end of a port that it does not have tells it at once.
        let number = UInt64.max - lastPing.add(1, ordering: .relaxed).newValue
        let id = PortID(incarnation: channel.id.incarnation, number: number)
        let probe = PortProcess.current.channel(to: WireRight(id: id, queueLimit: 1, limit: 0, path: channel.path))
        // It is known to the one who hears the answer only as long as it is kept.
        defer { withExtendedLifetime(probe) {} }
        let answered = Gate()
        probe.onInvalidation { answered.open() }
        try channel.joinPeer(before: max(deadline, .now + .seconds(1)))
        guard answered.wait(until: deadline) else { throw .receiveTimedOut(port: description) }
        let end = MonotonicInstant.now
        guard isValid else { throw .becameInvalid(port: description) }
        return end - start
    }
}
