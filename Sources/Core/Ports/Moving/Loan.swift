import RunLoopLocks
import RunLoops

extension MachPort {
    /// A port that is given to another process, and comes back when that has ended: how a supervisor keeps the port of a
    /// service that may crash.
    ///
    ///     func run(_ service: WorkerProcess, with port: MachPort) async throws -> MachPort {
    ///         let loan = try MachPort.Loan(port)
    ///         let message = MachPort.Message(id: 1, [.receiveRight(loan.receiveRight)])
    ///         try await service.port.send(message, before: .now + .seconds(1))
    ///         _ = try await service.waitForExit()
    ///         return try await loan.takeBack(before: .now + .seconds(10))
    ///     }
    ///
    /// The port comes back with its identity, its names, all rights to it, and the messages that the borrower had not taken.
    /// Requests that it had taken, and not answered, throw ``PortError/unanswered(port:)``. It also comes back when the
    /// borrower invalidates it. <doc:MovingPorts> says what may be lost.
    ///
    /// The corresponding Mach function is `mach_port_request_notification` with `MACH_NOTIFY_PORT_DESTROYED`. The lender has
    /// to keep the loan: without it, the port ends with the borrower. Any thread may call all methods.
    public final class Loan: PortLoan {
        private enum Phase {
            /// The port is here, and offered.
            case offered
            case lent(Lent)
            /// The port is the caller's again, or it has ended.
            case over
        }

        /// The loan, while the borrower has the port.
        private struct Lent {
            /// The messages that waited when the port was lent.
            var messages: [LocalMessage]
            let names: [RegisteredName]
            /// The port at the borrower.
            let home: PortID
            /// The number of further messages, which the borrower has taken, and which were released.
            var released = 0

            /// Releases what the borrower has taken.
            /// - Parameter taken: The borrower's count, which may be anything.
            /// - Returns: What was released.
            mutating func release(_ taken: Int) -> ArraySlice<LocalMessage> {
                let count = min(max(taken - released, 0), messages.count)
                let former = messages
                messages.removeFirst(count)
                released += count
                return former[..<count]
            }
        }

        private struct State {
            var phase = Phase.offered
            /// The directory in which the loan is noted. It may have another path meanwhile.
            var directory: RegistryDirectory?
            var rings = LentRings()
            /// Whether somebody wants the port back that has not gone.
            var isWanted = false
            /// Whether the borrower has ended before the hand-over to it has.
            var isBack = false

            var isOffered: Bool { if case .offered = phase { true } else { false } }
        }

        /// The port before it was lent.
        private let port: MachPort
        /// Takes its place afterwards. Nobody takes from it until then.
        package let standby: MachPort
        /// Takes the rings that the borrower makes.
        private let desk: MachPort
        private let taken: TakenCount
        private let state = Lock(State())
        /// Held while the port is taken from the registry.
        private let returning = Lock(())
        private let outcome = Promise<Result<MachPort, PortError>>()

        /// The right for the borrower, which claims it as any other: see `MachPort.ReceiveRight.claim(before:)`. Until then
        /// the port goes on here.
        public let receiveRight: ReceiveRight

        /// Offers a port of this process. A port has one loan at a time.
        /// - Throws: ``PortError``: `isInvalid`; `cannotMove` when the port has another loan, or is being handed over;
        ///   `outOfDescriptors`, or an error of the directory; `transport` where the process may make no memory.
        public init(_ port: MachPort) throws(PortError) {
            let (receiver, runtime) = (port.receiver, port.runtime)
            let offer = try PortOffer.of(port)
            let names = PortNameServer(directory: receiver.exposure.directoryPath, runtime: runtime)
            self.port = port
            taken = try TakenCount()
            receiveRight = ReceiveRight(offer: offer.right)
            // A message port stays one.
            let requests = receiver.requests.map { _ in RequestLedger(runtime.notices) }
            standby = try MachPort(receiver.limits, names, nil, requests: requests, of: port.id)
            standby.receiver.intake.pause()
            _ = try standby.receiver.exposure.directoryOfSocket()
            desk = try MachPort(queueLimit: 1000, messageLimit: 64 << 10, nameServer: names)
            try desk.handleOnHousekeeping { [weak self] message in self?.came(message) }
            standby.receiver.makeArrival().wait(WeakStandby(self))
            guard receiver.arrival?.lender == nil else {
                throw .cannotMove(reason: "\(port.identity) is lent already")
            }
            try offer.lend(self)
        }

        deinit {
            guard !Fork.isChild else { return }
            if case .over = state.withLock({ $0.phase }) {} else { endLoan() }
            standby.explain(nil)
            desk.invalidate()
        }

        // MARK: Taking back

        /// Gets the port: at once when nobody has claimed it, else when the borrower has ended or has invalidated it. Blocks
        /// until then, at most until the deadline. The port has no handler, and its messages wait.
        ///
        /// A port that nobody has claimed yet cannot be claimed after the call. So a supervisor calls it when the service has
        /// ended, not when it has just been started.
        /// - Parameter deadline: The end of the wait; nil for no end.
        /// - Throws: ``PortError``: `receiveTimedOut` at the deadline, when the borrower still has the port; `isInvalid` when
        ///   the port has ended.
        @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
        public func takeBack(before deadline: ContinuousClock.Instant?) throws(PortError) -> MachPort {
            takeOffered()
            return try result(outcome.wait(until: MonotonicInstant(deadline)))
        }

        /// Gets the port, as the form that blocks does, and suspends the task until it has come. Throws also
        /// `CancellationError`.
        public nonisolated(nonsending) func takeBack(
            before deadline: ContinuousClock.Instant?
        ) async throws -> MachPort {
            takeOffered()
            let housekeeping = port.runtime.housekeeping
            return try result(try await outcome.value(before: MonotonicInstant(deadline), on: housekeeping))
        }

        private func result(_ outcome: Result<MachPort, PortError>?) throws(PortError) -> MachPort {
            guard let port = try outcome?.get() else { throw .receiveTimedOut(port: standby.identity) }
            guard port.isValid else { throw .isInvalid(port: port.identity) }
            return port
        }

        /// Takes the port that nobody has claimed. While it is being handed over, that is done afterwards.
        private func takeOffered() {
            state.withLock { $0.isWanted = true }
            takeIfWanted()
        }

        /// The port is not being handed over.
        func takeIfWanted() {
            guard state.withLock({ $0.isOffered && $0.isWanted }), PortOffer.takeUnclaimed(port) else { return }
            stays()
        }

        /// The port is here for good.
        func stays() {
            let isHere = state.withLock { state in
                // The offer also ends when the port goes.
                guard state.isOffered else { return false }
                state.phase = .over
                return true
            }
            guard isHere else { return }
            standby.invalidate()
            outcome.set(.success(port))
        }

        // MARK: Lending

        var terms: LoanTerms? {
            get throws(PortError) {
                LoanTerms(
                    PortBorrowing(standby.receiver.id, desk.sendRight), taken: try MessageDescriptor(of: taken.memory),
                    reason: port.receiver.arrival?.reason)
            }
        }

        /// The port is about to move to the borrower.
        func begin(in directory: RegistryDirectory) throws(PortError) {
            taken.value = 0
            try directory.beginLoan(of: port.id, by: standby.receiver.id)
            state.withLock { ($0.directory, $0.isBack) = (directory, false) }
        }

        /// The port has not moved.
        func stayed(in directory: RegistryDirectory) {
            directory.endLoan(of: port.id, by: standby.receiver.id)
            let former = state.withLock { exchange(&$0.rings, with: LentRings()) }
            withExtendedLifetime(former) {}
        }

        /// The port is the borrower's.
        func lend(_ messages: [LocalMessage], _ names: [RegisteredName], at home: PortID) {
            let isBack = state.withLock { state in
                state.phase = .lent(Lent(messages: messages, names: names, home: home))
                return state.isBack
            }
            if !messages.isEmpty { forgetTaken() }
            if isBack { comesBackLater() }
        }

        /// Comes back when the hand-over has moved the channel, too.
        private func comesBackLater() {
            port.runtime.housekeeping.perform(after: .milliseconds(10)) { [weak self] in
                do throws(PortError) { _ = try self?.comesBack(from: nil) } catch { self?.comesBackLater() }
            }
        }

        /// The time between looks at what the borrower has taken.
        private static let lookPeriod = Duration.seconds(1)

        /// Releases the messages that the borrower has taken.
        private func forgetTaken() {
            let taken = taken.value
            // Released after the lock.
            let (former, goesOn) = state.withLock { state -> (ArraySlice<LocalMessage>, Bool) in
                guard case .lent(var lent) = state.phase else { return ([], false) }
                let former = lent.release(taken)
                state.phase = .lent(lent)
                return (former, !lent.messages.isEmpty)
            }
            withExtendedLifetime(former) {}
            guard goesOn else { return }
            port.runtime.housekeeping.perform(after: Self.lookPeriod) { [weak self] in self?.forgetTaken() }
        }

        // MARK: On the housekeeping thread

        /// The borrower has made a ring.
        private func came(_ message: Message) {
            guard let ring = message.ring else {
                return log.warning(
                    "\(standby.identity) may lose messages: its lender has no descriptor left for a ring")
            }
            // Closed after the lock.
            let (former, isKept) = state.withLock { state in
                let former = state.rings
                return (former, state.rings.add(ring))
            }
            withExtendedLifetime(former) {}
            if isKept { return }
            log.warning(
                about: .process(message.sender?.pid ?? 0), once: "rings of a loan",
                "\(standby.identity) may lose messages: its borrower has more than \(LentRings.most) rings")
        }

        private func endLoan() {
            directory?.endLoan(of: port.id, by: standby.receiver.id)
            standby.invalidate()
        }

        /// The borrower, or somebody after it, has given the port to this process in another way.
        fileprivate func hasCome(as port: MachPort) {
            state.withLock { $0.phase = .over }
            endLoan()
            outcome.set(.success(port))
        }

        fileprivate var directory: RegistryDirectory? { state.withLock { $0.directory } }

        /// - Throws: ``PortError`` when the directory cannot be read, or written, now.
        fileprivate func comesBack(from known: PortID?) throws(PortError) -> Bool {
            // The borrower's last rings come first.
            for peer in desk.receiver.ringPeers { desk.receiver.takeRing(of: peer) }
            guard let back = try returning.withLock({ _ throws(PortError) in try takeFromRegistry(known) }) else {
                return state.withLock { $0.isOffered }
            }
            guard var lent = back.lent else {
                endLoan()
                outcome.set(.failure(.isInvalid(port: standby.identity)))
                return false
            }
            let (receiver, allRings) = (standby.receiver, back.rings)
            // A borrower that has passed the port on has passed on all that waited there.
            let home = back.lastHome ?? lent.home
            _ = lent.release(home == lent.home ? back.takenCount : .max)
            let rings = allRings.filter { $0.home == home }
            port.runtime.channels.moveHere(receiver.channel)
            let (messages, names) = (lent.messages, lent.names)
            do {
                // The names and the rings may be many, and the rings full.
                let thread = try RunLoopThread(name: "port moves") { [self] _ in
                    comeBack(with: messages, rings, names, at: home)
                }
                thread.stop()
            } catch {
                comeBack(with: messages, rings, names, at: home)
            }
            return true
        }

        private struct Back {
            /// Nil when the registry does not know the loan any more.
            let lent: Lent?
            let rings: [LentRing]
            let lastHome: PortID?
            let takenCount: Int
        }

        /// Notes that the port is here.
        /// - Parameter known: The last home, if the registry has lost it.
        /// - Returns: Nil when it is not lent.
        private func takeFromRegistry(_ known: PortID?) throws(PortError) -> Back? {
            let isLent = state.withLock { state in
                switch state.phase {
                case .lent: return true
                case .offered: state.isBack = true
                // The port may be on its way back already, or here.
                case .over: break
                }
                return false
            }
            guard isLent else { return nil }
            // Read first, because it is about to be this process.
            let (lastHome, takenCount) = (try directory?.home(of: port.id), taken.value)
            let isBack = try directory?.takeBack(port.id, at: standby.receiver.id) == true
            let (phase, rings) = state.withLock { state in
                (exchange(&state.phase, with: .over), exchange(&state.rings, with: LentRings()).all)
            }
            guard case .lent(let lent) = phase else { return nil }
            return Back(lent: isBack ? lent : nil, rings: rings, lastHome: lastHome ?? known, takenCount: takenCount)
        }

        /// Takes the names, and what is left in the rings. Until then, nobody takes from the port.
        private func comeBack(
            with messages: [LocalMessage], _ rings: [LentRing], _ names: [RegisteredName], at home: PortID
        ) {
            let receiver = standby.receiver
            // The borrower may have registered others.
            let others = port.runtime.registry.entries(of: port.id, at: home).map { directory, entry in
                RegisteredName(directory: directory, name: entry.name, isService: entry.isService)
            }
            for held in names + others.filter({ !names.contains($0) }) { take(held) }
            let deadline = MonotonicInstant.now + .seconds(1)
            let messages = messages + rings.flatMap { rest(of: $0, until: deadline) }
            receiver.intake.takeAgain(with: messages, haveCome: true)
            receiver.arrival?.came(with: messages)
            let number = receiver.id.number
            for peer in port.runtime.control.allWatchers(of: number) { peer.send(.stayed(number)) }
            log.debug("\(standby.identity) has come back with \(messages.count) messages")
            outcome.set(.success(standby))
        }

        /// The messages that the borrower has not taken from a ring.
        private func rest(of lent: LentRing, until deadline: MonotonicInstant) -> [LocalMessage] {
            guard let ring = lent.left(standby.messageLimit, queueLimit: standby.queueLimit, until: deadline) else {
                log.warning(
                    about: .process(lent.sender.pid), once: "lent ring",
                    "\(standby.identity) has lost what waited in a ring of \(ProcessIdentity(pid: lent.sender.pid))")
                return []
            }
            return standby.receiver.intake.messages(leftIn: ring, until: deadline)
        }

        private func take(_ held: RegisteredName) {
            let (exposure, identity) = (standby.receiver.exposure, standby.identity)
            // The directory may have moved away, or another may be in its place.
            port.runtime.registry.take(held.name, isService: held.isService, at: held.directory.path, with: exposure) {
                held.directory.removeFormerEntries(held.name, of: exposure)
            } isLost: { error in
                log.error("\(identity) has lost its name \(held.name.quoted) with its borrower: \(error)")
            }
        }
    }
}

extension MachPort {
    /// Lets the askers of requests that a former owner of the port has taken, and not answered, wait for the reason. For the
    /// port that waits at a lender, which will know how the borrower has ended, and then for the one that the lender claims.
    package func expectExplanation() { receiver.makeArrival().expectExplanation() }

    /// Gives the reason, with which the requests fail: ``PortError/failed(port:_:)``. Without one they are
    /// ``PortError/unanswered(port:)``.
    package func explain(_ reason: String?) {
        var reason = reason
        while (reason?.utf8.count ?? 0) > ControlMessage.longestReason { reason?.unicodeScalars.removeLast() }
        receiver.arrival?.explain(reason)
    }
}

/// The loan of a port that waits, as the port knows it.
private final class WeakStandby: StandbyPort {
    private let loan: Weak<MachPort.Loan>

    init(_ loan: MachPort.Loan) { self.loan = Weak(loan) }

    func comesBack(from home: PortID) throws(PortError) -> Bool { try loan.object?.comesBack(from: home) ?? false }
    var directory: RegistryDirectory? { loan.object?.directory }
    func hasCome(as port: any AnyObject & Sendable) {
        if let port = port as? MachPort { loan.object?.hasCome(as: port) }
    }
}
