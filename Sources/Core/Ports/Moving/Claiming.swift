import RunLoops

// Offering a port to another process, and claiming one.

extension MachPort.ReceiveRight {
    /// Offers a port of this process.
    /// - Throws: ``PortError``: `isInvalid`, `outOfDescriptors`, or an error of the directory.
    public convenience init(_ port: MachPort) throws(PortError) {
        self.init(offer: try PortOffer.of(port).right)
    }

    /// Gets the port. Blocks until it has come, at most until the deadline; ten seconds unless told otherwise. The port
    /// has no handler, and its messages wait. After an error the port is where it was, unless its process has ended.
    /// - Throws: ``PortError``: `receiveTimedOut` at the deadline; `isInvalid` and `becameInvalid` without the port, or
    ///   when somebody else has claimed it; `unavailable` with the reason; `outOfDescriptors`, or an error of the
    ///   directory.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func claim(
        before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) throws(PortError) -> MachPort {
        try claim(for: nil, before: MonotonicInstant(deadline))
    }

    /// Gets the port, as the form that blocks does, and suspends the task until it has come. Throws also
    /// `CancellationError`.
    public nonisolated(nonsending) func claim(
        before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) async throws -> MachPort {
        try await claim(for: nil, before: MonotonicInstant(deadline))
    }

    /// - Parameter requests: The ledger of a message port; nil for another port.
    @available(*, noasync)
    func claim(for requests: RequestLedger?, before deadline: MonotonicInstant) throws(PortError) -> MachPort {
        if let own = try PortOffer.takeOwn(offer) { return own }
        let adoption = try Adoption(offer, requests, until: deadline)
        if adoption.runtime.housekeeping.isCurrent {
            throw .unavailable(reason: "the library's own thread cannot wait for a port")
        }
        try adoption.begin()
        return try adoption.end()
    }

    nonisolated(nonsending) func claim(
        for requests: RequestLedger?, before deadline: MonotonicInstant
    ) async throws -> MachPort {
        try Task.checkCancellation()
        if let own = try PortOffer.takeOwn(offer) { return own }
        let adoption = try Adoption(offer, requests, until: deadline)
        try await adoption.beginAsync()
        return try await adoption.endAsync()
    }
}

extension MachPort.Message.Component {
    /// The right to receive from a port of this process. See ``MachPort/ReceiveRight``.
    /// - Throws: ``PortError``: `isInvalid`, `outOfDescriptors`, or an error of the directory.
    public static func receiveRight(_ port: MachPort) throws(PortError) -> Self {
        .receiveRight(try MachPort.ReceiveRight(port))
    }
}
