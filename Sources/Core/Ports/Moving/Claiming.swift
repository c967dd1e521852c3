import RunLoopLocks
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
    ///   when somebody else has claimed it; `cannotMove` with the reason; `outOfDescriptors`, or an error of the
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
        let claim = try Claim(offer, requests, until: deadline)
        if claim.runtime.housekeeping.isCurrent {
            throw .cannotMove(reason: "the library's own thread cannot wait for a port")
        }
        try claim.begin()
        return try claim.end()
    }

    nonisolated(nonsending) func claim(
        for requests: RequestLedger?, before deadline: MonotonicInstant
    ) async throws -> MachPort {
        try Task.checkCancellation()
        if let own = try PortOffer.takeOwn(offer) { return own }
        let claim = try Claim(offer, requests, until: deadline)
        try await claim.beginAsync()
        return try await claim.endAsync()
    }
}

extension MachPort.Message.Component {
    /// The right to receive from a port of this process. See ``MachPort/ReceiveRight``.
    /// - Throws: ``PortError``: `isInvalid`, `outOfDescriptors`, or an error of the directory.
    public static func receiveRight(_ port: MachPort) throws(PortError) -> Self {
        .receiveRight(try MachPort.ReceiveRight(port))
    }
}

/// The next owner's part of a port's move, from the claim to the port.
final class Claim: Sendable {
    private enum Phase {
        /// Nothing has come.
        case claimed
        case taking(Taking)
        case over
    }

    private struct Taking {
        /// The port, which nobody knows yet.
        let port: MachPort
        let directory: RegistryDirectory
        let answers: MachPort.SendRight
        /// The lender of the port; nil without one. The port has none before it is here: one that is claimed no more would go
        /// back to it, and so end the move.
        let lender: PortBorrowing?
        /// Where the lender of the port learns how many of its messages were taken; nil without one.
        let taken: TakenCount?
        /// The messages that have come.
        var messages: MovedMessages
    }

    let runtime: PortRuntime
    let outcome = Promise<Result<MachPort, PortError>>()
    private let offer: MachPort.SendRight
    private let requests: RequestLedger?
    private let parts: MachPort
    private let phase = Lock(Phase.claimed)
    private let deadline: MonotonicInstant
    private let noMessages: MovedMessages

    /// - Parameter noMessages: Bounds the messages that come with the port.
    init(
        _ offer: MachPort.SendRight, _ requests: RequestLedger?, until deadline: MonotonicInstant,
        _ noMessages: MovedMessages = MovedMessages()
    ) throws(PortError) {
        let runtime = try offer.channel.retainedRuntime()
        (self.offer, self.requests, self.runtime, self.deadline) = (offer, requests, runtime, deadline)
        self.noMessages = noMessages
        let names = PortNameServer(directory: offer.channel.path, runtime: runtime)
        parts = try MachPort(queueLimit: 1000, messageLimit: Wire.largestMessage, nameServer: names)
        try parts.handleOnHousekeeping { [weak self] message in self?.came(message) }
    }

    deinit { parts.invalidate() }

    // MARK: Claiming

    @available(*, noasync)
    func begin() throws(PortError) {
        watchOffer()
        try offer.send(MachPort.Message(.claim, replyPort: parts.sendRight), until: deadline)
    }

    nonisolated(nonsending) func beginAsync() async throws {
        watchOffer()
        let channel = offer.channel
        let claim = MachPort.Message(.claim, replyPort: parts.sendRight)
        try await channel.send(MessageEncoding.outgoing(claim, to: channel), before: deadline)
    }

    private func watchOffer() {
        let (identity, housekeeping) = (offer.identity, runtime.housekeeping)
        offer.onInvalidation { [weak self] in
            // The messages that the owner has sent before its end come first.
            try? housekeeping.perform { [weak self] in self?.fail(.becameInvalid(port: identity)) }
        }
    }

    @available(*, noasync)
    func end() throws(PortError) -> MachPort {
        if outcome.wait(until: deadline) == nil { giveUp() }
        // The port may be being taken at this moment.
        guard let outcome = outcome.wait(until: .distantFuture) else {
            throw .receiveTimedOut(port: offer.identity)
        }
        return try outcome.get()
    }

    nonisolated(nonsending) func endAsync() async throws -> MachPort {
        do {
            if let outcome = try await outcome.value(before: deadline, on: runtime.housekeeping) {
                return try outcome.get()
            }
            giveUp()
        } catch {
            if giveUp() { throw error }
        }
        return try await withCheckedContinuation { continuation in
            outcome.whenSet { continuation.resume(returning: $0) }
        }.get()
    }

    /// Takes the port no more.
    /// - Returns: False when it is taken already, or has another outcome.
    @discardableResult
    private func giveUp() -> Bool { fail(.receiveTimedOut(port: offer.identity)) }

    @discardableResult
    private func fail(_ error: PortError) -> Bool {
        let former = phase.withLock { exchange(&$0, with: .over) }
        if case .over = former { return false }
        if case .taking(let taking) = former { MachPort.Message(failed: error).post(to: taking.answers) }
        outcome.set(.failure(error))
        return true
    }

    // MARK: On the housekeeping thread

    private func came(_ message: MachPort.Message) {
        do throws(PortError) {
            switch message.step {
            case .begin: try begin(message)
            case .message:
                guard let waiting = message.waiting else { throw .cannotMove(reason: "a message is malformed") }
                try phase.withLock { (phase) throws(PortError) in
                    guard case .taking(var taking) = phase else { return }
                    // One owner, so that nothing is copied.
                    phase = .over
                    defer { phase = .taking(taking) }
                    try taking.messages.add(waiting, byteCount: message.received?.size ?? 0)
                }
            case .complete: try complete(message)
            case .failed: fail(.cannotMove(reason: message.text(ofComponent: 0) ?? "its owner keeps it"))
            case .claim, .ready, .taken, .ring, nil: break
            }
        } catch {
            // The owner goes on at once.
            if message.step == .begin, let answers = message.replyPort {
                MachPort.Message(failed: error).post(to: answers)
            }
            fail(error)
        }
    }

    private func begin(_ message: MachPort.Message) throws(PortError) {
        guard let named = message.port(ofComponent: 0), let answers = message.replyPort else {
            throw .cannotMove(reason: "its owner is of another kind")
        }
        let (id, channel) = (named.id, named.channel.latest)
        // The next owner answers before this process has let the port go, and may offer it at once.
        if channel.isLocal, channel.isOnTheMove, !deadline.hasPassed {
            return runtime.housekeeping.perform(after: .milliseconds(1)) { [weak self] in self?.came(message) }
        }
        let right = channel.right
        let names = PortNameServer(directory: right.path, runtime: runtime)
        let port = try MachPort(PortLimits(of: right), names, nil, requests: requests, of: id)
        let directory = try port.receiver.exposure.directoryOfSocket()
        guard try (directory.home(of: id) ?? id).incarnation == offer.channel.id.incarnation else {
            throw .cannotMove(reason: "it is no port of the process that offers it")
        }
        let terms = LoanTerms(message)
        let taken = try terms?.taken.map { (memory) throws(PortError) in try TakenCount(memory) }
        terms?.lender.watch()
        let arrival = port.receiver.makeArrival()
        if let standby = standby(for: id, directory), standby.arrival?.expectsExplanation == true {
            arrival.expectExplanation()
        }
        if let reason = terms?.reason {
            arrival.expectExplanation()
            port.explain(reason)
        }
        let isFirst = phase.withLock { phase in
            guard case .claimed = phase else { return false }
            phase = .taking(
                Taking(
                    port: port, directory: directory, answers: answers, lender: terms?.lender, taken: taken,
                    messages: noMessages))
            return true
        }
        if isFirst {
            MachPort.Message(.ready, [MachPort.Message.bytes(of: [port.receiver.id.number])]).post(to: answers)
        }
    }

    private func complete(_ message: MachPort.Message) throws(PortError) {
        let phase = phase.withLock { phase in
            if case .claimed = phase { return phase }
            return exchange(&phase, with: .over)
        }
        switch phase {
        // Somebody ends a move that has not begun.
        case .claimed: throw .cannotMove(reason: "its owner is of another kind")
        case .taking(let taking): complete(message, taking)
        case .over: break
        }
    }

    private func complete(_ message: MachPort.Message, _ taking: Taking) {
        let (receiver, messages) = (taking.port.receiver, taking.messages.all)
        let moved = MovedContents(message)
        let names = moved.names.map { name in
            Registry.AwaitedName(port: receiver.id, name: name.name, path: name.path, isService: name.isService)
        }
        do throws(PortError) {
            guard moved.messageCount == UInt64(messages.count) else {
                throw .cannotMove(reason: "some of its messages are lost")
            }
            // Before anybody can ask for them, or for rings.
            receiver.arrival?.came(with: messages)
            receiver.arrival?.setLender(taking.lender)
            guard taking.directory.commitMove(of: receiver.publicID, to: receiver.id) else {
                throw .cannotMove(reason: "its owner has ended the move")
            }
            runtime.registry.expect(names)
            runtime.channels.moveHere(receiver.channel)
            endOwnLoan(taking)
            receiver.intake.takeAgain(with: messages, haveCome: true, telling: taking.taken)
        } catch {
            receiver.arrival?.setLender(nil)
            MachPort.Message(failed: error).post(to: taking.answers)
            outcome.set(.failure(error))
            return
        }
        take(names[...], taking)
    }

    /// The port is here, and gets its names. Thousands of names take seconds. After each turn, the housekeeping thread serves
    /// everybody else, and a claim whose time is over does not wait for them.
    private func take(_ names: ArraySlice<Registry.AwaitedName>, _ taking: Taking, isTold: Bool = false) {
        let (identity, exposure) = (taking.port.identity, taking.port.receiver.exposure)
        var count = 0
        let end = MonotonicInstant.now + .milliseconds(2)
        for name in names where !end.hasPassed {
            count += 1
            runtime.registry.take(name, with: exposure) { error in
                log.error("\(identity) has lost its name \(name.name.quoted) by its move: \(error)")
            }
        }
        let left = names.dropFirst(count)
        let isDone = left.isEmpty || deadline.hasPassed
        if isDone, !isTold {
            MachPort.Message(.taken).post(to: taking.answers)
            outcome.set(.success(taking.port))
        }
        if !left.isEmpty { try? runtime.housekeeping.perform { self.take(left, taking, isTold: isDone) } }
    }

    /// The port of this process that waits for the claimed one, if this process has lent it.
    private func standby(for port: PortID, _ directory: RegistryDirectory) -> Receiver? {
        guard let lender = (try? directory.lender(of: port)) ?? nil, lender.incarnation == runtime.incarnation else {
            return nil
        }
        return runtime.ports.port(lender.number)
    }

    private func endOwnLoan(_ taking: Taking) {
        guard let waiting = standby(for: taking.port.id, taking.directory) else { return }
        taking.port.receiver.arrival?.setLender(nil)
        waiting.arrival?.standby?.hasCome(as: taking.port)
    }
}
