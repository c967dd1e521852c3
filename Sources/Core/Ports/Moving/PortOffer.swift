import RunLoopLocks
import RunLoops

/// A port of this process that another one may claim. It takes the claims at a port of its own. The two keep each other
/// until one of the claims has succeeded, or the port ends.
final class PortOffer: Sendable {
    private let port: MachPort
    private let claims: MachPort

    private struct State {
        /// Set at the end of the hand-over that is under way; nil without one.
        var handOver: Promise<Void>?
        /// Whether nobody may claim the port any more.
        var isWithdrawn = false
        /// The loan of a port that is lent.
        weak var loan: (any PortLoan)?
    }

    private let state = Lock(State())

    var right: MachPort.SendRight { claims.sendRight }

    /// The offer of a port of this process.
    static func of(_ port: MachPort) throws(PortError) -> PortOffer {
        try Fork.check()
        guard port.isValid else { throw .isInvalid(port: port.identity) }
        let offer = try port.receiver.offer.withLock { (offer) throws(PortError) in
            if let offer = offer as? PortOffer { return offer }
            let made = try PortOffer(port)
            offer = made
            return made
        }
        // The port's end may have come before the offer, and would end it.
        guard port.isValid else {
            withdraw(port)
            throw .isInvalid(port: port.identity)
        }
        return offer
    }

    private init(_ port: MachPort) throws(PortError) {
        self.port = port
        let names = PortNameServer(directory: port.receiver.exposure.directoryPath, runtime: port.runtime)
        claims = try MachPort(queueLimit: 16, messageLimit: 64 << 10, nameServer: names)
        try claims.handleOnHousekeeping { [weak self] message in self?.claimed(message) }
        let offers = port.runtime.offers
        offers.entries.withLock { $0[claims.id] = Weak(self) }
        claims.onInvalidation { [id = claims.id] in _ = offers.entries.withLock { $0.removeValue(forKey: id) } }
    }

    deinit { claims.invalidate() }

    /// Lends the port to its claimant.
    /// - Throws: ``PortError``: `cannotMove` when it has another loan, or is being handed over for good.
    func lend(_ loan: any PortLoan) throws(PortError) {
        try state.withLock { (state) throws(PortError) in
            guard state.loan == nil else { throw .cannotMove(reason: "\(port.identity) is lent already") }
            guard state.handOver == nil, !state.isWithdrawn else { throw busyError }
            state.loan = loan
        }
    }

    private var loan: (any PortLoan)? { state.withLock { $0.loan } }

    /// Takes back a port of this process that was offered.
    /// - Returns: False while it is being handed over.
    static func takeUnclaimed(_ port: MachPort) -> Bool {
        guard let offer = port.receiver.offer.withLock({ $0 }) as? PortOffer else { return true }
        guard offer.take() else { return false }
        withdraw(port)
        return true
    }

    /// Takes the port of an offer of this runtime; nil for an offer of another process.
    static func takeOwn(_ right: MachPort.SendRight) throws(PortError) -> MachPort? {
        try Fork.check()
        guard right.channel.isLocal else { return nil }
        let offers = try right.channel.retainedRuntime().offers
        let offer = offers.entries.withLock { $0[right.id]?.object }
        guard let offer, offer.port.isValid else { throw .isInvalid(port: right.identity) }
        guard offer.take() else { throw offer.busyError }
        guard withdraw(offer.port) else { throw .isInvalid(port: right.identity) }
        offer.loan?.stays()
        return offer.port
    }

    /// Lets nobody claim the port any more. A claim that has begun goes on.
    /// - Returns: Whether there was an offer.
    @discardableResult
    static func withdraw(_ port: MachPort) -> Bool { port.receiver.offer.withLock { $0.take() } != nil }

    /// Lets nobody claim the port any more.
    /// - Returns: The end of the hand-over that is under way, which goes on; nil without one.
    static func withdrawUnlessClaimed(_ port: MachPort) -> Promise<Void>? {
        guard let offer = port.receiver.offer.withLock({ $0.take() }) as? PortOffer else { return nil }
        // Also a claim that comes when the hand-over has failed is refused.
        return offer.state.withLock { state in
            state.isWithdrawn = true
            return state.handOver
        }
    }

    /// - Returns: False when the port is being handed over.
    private func begin() -> Bool {
        state.withLock { state in
            guard state.handOver == nil, !state.isWithdrawn else { return false }
            state.handOver = Promise()
            return true
        }
    }

    /// Refuses all claims.
    /// - Returns: False when the port is being handed over.
    private func take() -> Bool {
        state.withLock { state in
            guard state.handOver == nil, !state.isWithdrawn else { return false }
            state.isWithdrawn = true
            return true
        }
    }

    private func end() { state.withLock { $0.handOver.take() }?.set(()) }

    private var busyError: PortError {
        .cannotMove(reason: "\(port.identity) is being handed over to another process")
    }

    // MARK: On the housekeeping thread

    private func claimed(_ message: MachPort.Message) {
        guard message.step == .claim, let claimant = message.replyPort else { return }
        guard begin() else { return refuse(claimant, busyError) }
        do {
            let thread = try RunLoopThread(name: "port moves") { [self] _ in
                let loan = loan
                HandOver(port, to: claimant, loan).run()
                end()
                loan?.takeIfWanted()
            }
            thread.stop()
        } catch {
            end()
            refuse(claimant, PortError(error))
        }
    }

    private func refuse(_ claimant: MachPort.SendRight, _ error: PortError) {
        MachPort.Message(failed: error).post(to: claimant)
    }
}

private final class PortOffers: Sendable {
    let entries = Lock<[PortID: Weak<PortOffer>]>([:])
}

extension PortRuntime {
    fileprivate var offers: PortOffers { attachment { PortOffers() } }
}
