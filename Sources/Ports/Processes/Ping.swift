import RunLoops
import Synchronization

/// Drawn from for numbers that no port has: ports count up from one.
private let lastPing = Atomic<UInt64>(0)

/// What the library in a port's owner answers, after all that it was asked before. It comes only as long as this is
/// kept.
struct SignOfLife {
    private let probe: SendChannel
    let hasCome = Promise<Bool>()

    /// Asks for it, now or when there is a connection to the owner.
    init(of channel: SendChannel) {
        // Whoever is asked to tell the end of a port that it does not have tells it at once.
        let number = UInt64.max - lastPing.add(1, ordering: .relaxed).newValue
        let id = PortID(incarnation: channel.id.incarnation, number: number)
        probe = PortProcess.current.channel(to: WireRight(id: id, queueLimit: 1, limit: 0, path: channel.path))
        probe.onInvalidation { [hasCome] in hasCome.set(true) }
    }
}

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
        let sign = SignOfLife(of: channel)
        try channel.joinPeer(before: max(deadline, .now + .seconds(1)))
        guard sign.hasCome.wait(until: deadline) != nil else { throw .receiveTimedOut(port: description) }
        let end = MonotonicInstant.now
        guard isValid else { throw .becameInvalid(port: description) }
        return end - start
    }
}
