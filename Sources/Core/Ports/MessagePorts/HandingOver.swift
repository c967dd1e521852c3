import RunLoops
import Synchronization

// A message port goes to another process, such as a new version of the same program.

extension LocalMessagePort {
    /// Gives the port to another process, with its names, its waiting requests and all rights to it. Its askers notice no
    /// more than a delay. The requests that were taken stay, and are answered here. The call blocks until the port has gone
    /// and those have their replies.
    ///
    /// The other process gets a message with the right to receive, and makes a port of it:
    /// `init(claiming:nameServer:before:requestHandler:)`. Until it has done so, the port goes on here. Any thread may
    /// call this method, except one that has to reply. <doc:MovingPorts> has the whole of an upgrade.
    /// - Parameters:
    ///   - right: A port of the other process.
    ///   - id: The id of the message.
    ///   - deadline: The end of the wait; nil for no end.
    /// - Returns: False when the deadline came before all replies. The port has gone in any case.
    /// - Throws: ``PortError``: `notHandedOver` when the other process has not claimed the port before the deadline, or it, or
    ///   its port, has ended; and as a send. The port goes on here.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    @discardableResult
    public func handOver(
        to right: MachPort.SendRight, id: UInt32 = 0, before deadline: ContinuousClock.Instant? = nil
    ) throws(PortError) -> Bool {
        let departure = Departure(of: self, to: right)
        do throws(PortError) {
            try right.send(MachPort.Message(id: id, [.receiveRight(port)]), before: deadline)
        } catch {
            try departure.checkUnoffered(error)
        }
        let end = departure.end.wait(until: MonotonicInstant(deadline))
        // The claim of a process that has ended since may have succeeded. The port has gone when the hand-over has ended.
        _ = departure.giveUp()?.wait(until: .distantFuture)
        try departure.check(end)
        return ledger.areDone.wait(until: MonotonicInstant(deadline)) != nil
    }

    /// Gives the port to another process, as the form that blocks does, and suspends the task meanwhile. Throws also
    /// `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func handOver(
        to right: MachPort.SendRight, id: UInt32 = 0, before deadline: ContinuousClock.Instant? = nil
    ) async throws -> Bool {
        let (departure, housekeeping) = (Departure(of: self, to: right), port.runtime.housekeeping)
        do {
            try await right.send(MachPort.Message(id: id, [.receiveRight(port)]), before: deadline)
        } catch {
            try departure.checkUnoffered(error)
        }
        do {
            let end = try await departure.end.value(before: MonotonicInstant(deadline), on: housekeeping)
            await departure.giveUpAsync()
            try departure.check(end)
        } catch {
            await departure.giveUpAsync()
            // A task that is cancelled when the port has gone already waits for the replies no more.
            throw error
        }
        return try await ledger.areDone.value(before: MonotonicInstant(deadline), on: housekeeping) != nil
    }

    /// Makes a port of the right in a message, with the names, the limits and the waiting requests that it had where it was.
    /// Blocks until the port has come; ten seconds at most unless told otherwise. After an error the port is where it was.
    /// - Parameters:
    ///   - right: The right in the message.
    ///   - nameServer: The name server of later names, whose runtime gets the port.
    ///   - deadline: The end of the wait.
    ///   - requestHandler: As at ``init(name:nameServer:queueLimit:byteLimit:messageLimit:requestHandler:)``.
    /// - Throws: ``PortError``, as `MachPort.ReceiveRight.claim(before:)`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public convenience init(
        claiming right: MachPort.ReceiveRight, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(10), requestHandler: RequestHandler? = nil
    ) throws(PortError) {
        let ledger = RequestLedger(nameServer.runtime.notices)
        self.init(try right.claim(for: ledger, before: MonotonicInstant(deadline)), ledger, nameServer, requestHandler)
    }

    /// Makes a port of the right in a message, as the form that blocks does, and suspends the task until it has come. Throws
    /// also `CancellationError`.
    public convenience init(
        claiming right: MachPort.ReceiveRight, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(10), requestHandler: RequestHandler? = nil
    ) async throws {
        let ledger = RequestLedger(nameServer.runtime.notices)
        let port = try await right.claim(for: ledger, before: MonotonicInstant(deadline))
        self.init(port, ledger, nameServer, requestHandler)
    }
}

extension LocalMessagePort {
    /// Whether the port has gone to another process.
    var hasMoved: Bool { port.receiver.channel.hasMoved.load(ordering: .acquiring) }
}

/// The way of a message port to another process, as its former owner sees it.
struct Departure {
    enum End {
        /// The port has ended here.
        case portEnded
        case claimantEnded
    }

    let server: LocalMessagePort
    let right: MachPort.SendRight
    let end = Promise<End>()

    init(of server: LocalMessagePort, to right: MachPort.SendRight) {
        (self.server, self.right) = (server, right)
        server.port.onInvalidation { [end] in end.set(.portEnded) }
        right.onInvalidation { [end] in end.set(.claimantEnded) }
    }

    /// The port was not offered to its next owner. An earlier offer may have been accepted meanwhile.
    func checkUnoffered<Failure: Error>(_ error: Failure) throws(Failure) {
        guard server.hasMoved else { throw error }
    }

    func check(_ end: End?) throws(PortError) {
        guard server.hasMoved else {
            switch end {
            case nil: throw notHandedOver(" has not claimed it before the deadline: allow more time")
            case .claimantEnded?:
                throw notHandedOver(
                    server.port.runtime.control.mayBeAlive(right.channel.id.incarnation)
                        ? " has ended the port that got it: keep that port until the claim returns"
                        : ", which was to claim it, has ended: start that process again")
            case .portEnded?: throw .becameInvalid(port: server.identity)
            }
        }
        server.ledger.finish()
    }

    private func notHandedOver(_ reason: String) -> PortError {
        .notHandedOver(port: server.identity, reason: "\(right.identity.ownerText)\(reason)")
    }

    /// Offers the port no more.
    /// - Returns: The end of the move that is under way.
    func giveUp() -> Promise<Void>? { PortOffer.withdrawUnlessClaimed(server.port) }

    nonisolated(nonsending) func giveUpAsync() async {
        guard let moveEnds = giveUp() else { return }
        await withCheckedContinuation { continuation in moveEnds.whenSet { continuation.resume() } }
    }
}
