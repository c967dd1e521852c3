import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// Takes the messages of a port, from wherever they arrive, while the port takes turns.
///
/// Messages are taken under one lock, which is never held in a callout, so each message is handled once. The socket's
/// descriptor is edge-triggered: after the first of several messages it is silent until the queue is empty. So the
/// intake remembers that it may have more (`mayHaveMore`). The taker of the first message raises the source in every
/// loop, and wakes every waiter, before it handles the message.
///
/// Under its lock, the intake asks its ``Takers``. So that lock is taken inside this one, and never the other way round.
final class Intake: Sendable {
    let state: Lock<IntakeState>
    let channel: SendChannel
    let takers: Takers
    /// Nil for a port without a byte limit.
    private let credit: FrameCredit?
    /// Whether the port has had a ring.
    private let hasRings = Atomic(false)
    /// Whether the housekeeping thread will look for drain probes.
    private let looksForProbes = Atomic(false)
    /// Whether the housekeeping thread will close sockets for descriptors.
    let closesDescriptorSockets = Atomic(false)

    init(
        _ zeroMQ: consuming ZeroMQIntake, _ queue: LocalQueue, byteLimit: Int, _ channel: SendChannel,
        _ takers: Takers, _ handlers: PortHandlers
    ) {
        let channels = channel.channels
        (self.channel, self.takers) = (channel, takers)
        credit = byteLimit > 0 ? FrameCredit(channel.id.number, byteLimit: byteLimit, channels.control) : nil
        state = Lock(IntakeState(inbox: Inbox(queue, zeroMQ), handlers: TappedHandlers(handlers)))
    }

    // MARK: Handlers

    func setHandlers(_ handlers: PortHandlers) { changeHandlers { $0.with(handlers) } }
    func addTap(_ tap: any MessageTap) { changeHandlers { $0.adding(tap) } }
    func removeTap(_ tap: any MessageTap) { changeHandlers { $0.removing(tap) } }

    private func changeHandlers(_ change: (TappedHandlers) -> TappedHandlers) {
        // Released after the lock, because the release may call this object again.
        let former = state.withLock { state in
            state.lifecycle.isOpen ? exchange(&state.handlers, with: change(state.handlers)) : nil
        }
        withExtendedLifetime(former) {}
    }

    var hasHandler: Bool { state.withLock { !$0.handlers.current.isEmpty } }
    var taps: [any MessageTap] { state.withLock { $0.handlers.allTaps } }

    // MARK: Turns

    /// False in a forked child, too.
    var isOpen: Bool { state.withLockUnlessForked { $0.lifecycle.isOpen } ?? false }

    /// Keeps the socket open until ``endTurn()``.
    func beginTurn() throws(PortError) {
        try Fork.check()
        guard state.withLock({ $0.lifecycle.beginTurn(crl_thread_id()) }) else {
            throw .isInvalid(port: channel.identity)
        }
    }

    func endTurn() {
        // A handler may have forked.
        let finish = state.withLockUnlessForked { $0.lifecycle.endTurn(crl_thread_id()) } ?? nil
        finish?()
    }

    /// Whether the calling thread has a turn.
    var hasTurn: Bool { state.withLock { $0.lifecycle.hasTurn(crl_thread_id()) } }
    var turnCount: Int { state.withLock { $0.lifecycle.turnCount } }

    // MARK: Taking

    /// The most malformed frames that are dropped in one turn.
    static let mostDropped = 1000

    /// Takes the next message that is not malformed.
    ///
    /// - Parameters:
    ///   - needsHandler: Whether to take a message only for a handler.
    ///   - source: The source that takes, which avoids the cost of the weak reference.
    ///   - waiter: The waiter that takes, which needs no wake-up.
    func take(
        needsHandler: Bool = true, source: ThreadRunLoop.Source1? = nil, waiter: (any Waiter)? = nil
    ) -> Delivery? {
        var reports = Inbox.Reports.all
        return take(needsHandler: needsHandler, source: source, waiter: waiter, &reports)
    }

    /// - Parameter reports: The descriptors that have reported something since they were last checked, without those that
    ///   the call has checked.
    func take(
        needsHandler: Bool = true, source: ThreadRunLoop.Source1?, waiter: (any Waiter)? = nil,
        _ reports: inout Inbox.Reports
    ) -> Delivery? {
        var isFirst = false
        for _ in 0..<Self.mostDropped {
            let taken = takeNext(needsHandler, source, &reports)
            let (handler, isLast) = (taken.handler, taken.isLast)
            if taken.makesRoom { channel.roomWasMade() }
            if taken.wakesWaiters { takers.wakeWaiters(except: waiter) }
            if taken.lacksMemory { retryRingsSoon() }
            isFirst = isFirst || taken.isFirst
            switch consume taken.next {
            case .nothing:
                credit?.returnAll()
                return nil
            case .local(let message):
                // The sender of a ring sees what was taken.
                if credit != nil, message.sender == nil { channel.returnCredit(message.size) }
                if isLast { credit?.returnAll() }
                return Delivery(local: message, handler: handler, isFirst: isFirst)
            case .frame(let frame, let sender):
                let size = frame.count
                let frame = checked(frame, sender)
                // A malformed frame has no origin.
                if sender == nil { credit?.collect(size, for: frame?.header.origin ?? 0, isLast: isLast) }
                if let frame { return Delivery(frame: frame, handler: handler, isFirst: isFirst) }
            case .other(let frame, let isProbe): handleOther(frame, isProbe)
            }
        }
        takers.tell()
        return nil
    }

    /// Takes the next message for a handler, unless the message may be the first or the last. The short way of most
    /// messages. The handlers are those of an earlier message, because a copy for each message would cost a retain and
    /// a release.
    ///
    /// - Parameters:
    ///   - handlers: The handlers of an earlier message. Set when they have changed.
    ///   - frame: Set when the message is a frame.
    ///   - sender: Set to the sender of a frame of a ring.
    ///   - reports: Emptied after a check of the descriptors that has found nothing.
    func takeAtHand(
        _ handlers: inout PortHandlers, _ frame: inout Frame?, _ sender: inout SenderCredentials?,
        _ reports: inout Inbox.Reports
    ) -> LocalMessage? {
        guard credit == nil else { return nil }
        var makesRoom = false
        // The former handlers are released after the lock.
        var newHandlers: PortHandlers?
        let message = state.withLock { state in
            let message = state.takeAtHand(&frame, &sender, &reports, makesRoom: &makesRoom)
            if message != nil || frame != nil, handlers.generation != state.handlers.current.generation {
                newHandlers = state.handlers.current
            }
            return message
        }
        if let newHandlers { handlers = newHandlers }
        if makesRoom { channel.roomWasMade() }
        return message
    }

    private func takeNext(
        _ needsHandler: Bool, _ source: ThreadRunLoop.Source1?, _ reports: inout Inbox.Reports
    ) -> IntakeState.Taken {
        // Released after the lock, because both may hold the last reference to an object that calls this one.
        var (delegateHandler, loopSource): (ReceivedMessage.Handler?, ThreadRunLoop.Source1?)
        return state.withLock { state in
            let taken = state.takeNext(
                needsHandler: needsHandler, tellsLast: credit != nil, &reports, ofDelegate: &delegateHandler)
            // Under the lock, so that it comes before the raise for the next message.
            if taken.silencesLoop {
                if let source { source.clear() } else { loopSource = takers.source }
                loopSource?.clear()
            }
            return taken
        }
    }

    /// The received frame, unless it is malformed.
    /// - Parameter isCopy: Whether the frame will be taken again, with its descriptors.
    func checked(
        _ frame: consuming Frame, _ sender: SenderCredentials?, isCopy: Bool = false
    ) -> ReceivedFrame? {
        let passed = takeDescriptors(of: frame, isCopy: isCopy)
        let frame = ReceivedFrame(frame, sender: sender, channel.channels, passed, at: channel)
        guard let error = frame.malformed else { return frame }
        noteMalformed(error, in: frame)
        return nil
    }

    /// The message; nil for what is none.
    func message(_ next: consuming Inbox.Next, answersProbes: Bool) -> ReceivedMessage? {
        switch consume next {
        case .nothing: return nil
        case .local(let message): return .local(message)
        case .frame(let frame, let sender): return checked(frame, sender).map(ReceivedMessage.frame)
        case .other(let frame, let isProbe):
            if answersProbes || !isProbe { handleOther(frame, isProbe) }
            return nil
        }
    }

    private func handleOther(_ frame: consuming Frame, _ isProbe: Bool) {
        guard isProbe else { return noteMalformed(.severalFrames, in: ReceivedFrame(frame, channel.channels)) }
        if let probe = checked(frame, nil) { answer(probe) }
    }

    private func noteMalformed(_ error: Wire.Malformed, in frame: ReceivedFrame) {
        state.withLock { $0.totals.malformed += 1 }
        // The program is looked up only for a line that is written, so a flood of such frames costs little.
        let (sender, text) = (frame.sender?.pid ?? 0, "\(error)")
        log.warning(
            about: .process(sender), once: text,
            "\(channel.identity) dropped a frame of \(ProcessIdentity(pid: sender)): \(text)")
    }

    // MARK: Looking

    /// Whether a message waits that the socket's descriptor does not report, or the port has ended. If neither is true,
    /// the descriptor reports the next message.
    func mayHaveMore() -> Bool {
        // Released after the lock.
        var source: ThreadRunLoop.Source1?
        // A handler may have forked.
        let mayHaveMore =
            state.withLockUnlessForked { state in
                guard state.lifecycle.isOpen else { return true }
                guard state.mayHaveMore else { return false }
                if state.checkForMore() { return true }
                source = takers.source
                source?.clear()
                return false
            } ?? true
        if !mayHaveMore { credit?.returnAll() }
        return mayHaveMore
    }

    /// Whether a message is known that the socket's descriptor does not report.
    var hasKnownMore: Bool { state.withLock { $0.lifecycle.isOpen && $0.mayHaveMore } }

    /// Whether a message waits at the open list or in an open ring, as a loop that polls sees it.
    var hasWork: Bool { hasRings.load(ordering: .relaxed) && state.withLock { $0.inbox.hasMessages } }

    /// Whether nothing waits, and only the loop whose turn it is takes messages: while it polls, the list and the rings
    /// can stay open.
    func staysOpen(_ reports: inout Inbox.Reports) -> Bool {
        let staysOpen = state.withLock { !takers.haveWaiters && $0.staysOpen(&reports) }
        if staysOpen { credit?.returnAll() }
        return staysOpen
    }

    /// Tells all takers about messages that came before there was a handler, because the descriptor does not report
    /// those again. Without a message nobody is told, because a turn that finds nothing would use the one event of the
    /// loop's pass.
    func tellTakersIfAny() {
        if state.withLock({ $0.findsMore() }) { takers.tell() }
    }

    var totals: PortTotals { state.withLockUnlessForked { $0.totals } ?? PortTotals() }

    /// The messages that were taken, those that this runtime has sent or that have come with the port, and whether none
    /// waits.
    func look() -> (taken: Int, ownSent: Int, isEmpty: Bool) {
        let look = state.withLock { state in
            // Read under the lock, because messages that are taken meanwhile would look as if they had never been sent.
            (
                taken: state.totals.taken, ownSent: channel.acceptedCount + state.cameCount,
                isEmpty: state.looksEmpty()
            )
        }
        if !look.isEmpty { takers.tell() }
        return look
    }

    // MARK: Drain probes and credit

    /// Answers the probes before which no message waits, because perhaps nobody takes from the port now.
    func answerProbesSoon() {
        answerProbes()
        // The notice of a probe travels by another connection than the probe, and may arrive first. So the queue is
        // checked again later.
        guard !looksForProbes.exchange(true, ordering: .relaxed) else { return }
        channel.channels.control.housekeeping.perform(after: .milliseconds(100)) { [weak self] in
            self?.looksForProbes.store(false, ordering: .relaxed)
            self?.answerProbes()
        }
    }

    private func answerProbes() {
        var probes: [ReceivedFrame] = []
        let isEmpty = state.withLock { state in
            while probes.count < Self.mostDropped, let probe = state.nextProbe() {
                probes.append(ReceivedFrame(probe, channel.channels))
            }
            return state.isEmptyBehindProbes()
        }
        if isEmpty { credit?.returnAll() } else { takers.tell() }
        for probe in probes { answer(probe) }
    }

    private func answer(_ probe: ReceivedFrame) {
        channel.channels.control.send(
            .drained(channel.id.number, probe: probe.header.request), to: probe.header.origin)
    }

    /// Returns credit again, because a connection to a sender was made.
    func returnUndeliveredCredit() { credit?.returnUndelivered() }

    // MARK: Peers

    /// Other processes can find the port from now on.
    func letPeersSend() throws(PortError) {
        try state.withLock { (state) throws(PortError) in
            guard state.lifecycle.isOpen else { throw .isInvalid(port: channel.identity) }
            state.inbox.mayHavePeers = true
        }
    }

    /// Lets other processes connect by ZeroMQ to a socket that listens.
    func bind(_ descriptor: Int32, _ path: String) throws(PortError) {
        try state.withLock { (state) throws(PortError) in
            guard state.lifecycle.isOpen else { throw .isInvalid(port: channel.identity) }
            try state.inbox.zeroMQ.bind(descriptor, path)
        }
    }

    /// Adds a ring of a peer, which sends no more by its former one.
    /// - Parameter hear: Lets the takers hear the bells.
    func add(_ ring: RingReceiver, _ hear: (DescriptorSet) -> Bool) -> Bool {
        let bells = state.withLock { $0.inbox.mayHavePeers ? $0.inbox.rings.makeBells() : nil }
        guard let bells, hear(bells) else { return false }
        let isAdded = state.withLock { state in
            state.inbox.rings.stopAll(of: ring.peer)
            return state.lifecycle.isOpen && state.inbox.rings.add(ring)
        }
        if isAdded { hasRings.store(true, ordering: .relaxed) }
        return isAdded
    }

    /// Lets `body` use the rings, if there are any, and tells the takers when an open ring has a record then, which no bell
    /// reports.
    func changeRings(_ body: (inout RingIntake) -> Void) {
        guard hasRings.load(ordering: .relaxed) else { return }
        let hasMore = state.withLock { state in
            body(&state.inbox.rings)
            return state.findsRecords()
        }
        if hasMore { takers.tell() }
    }

    /// Lets `body` read the rings; nil when the port has had none.
    func readRings<Result: Sendable>(_ body: (borrowing RingIntake) -> Result) -> Result? {
        hasRings.load(ordering: .relaxed) ? state.withLock { body($0.inbox.rings) } : nil
    }

    /// Looks again later at rings whose messages got no memory.
    private func retryRingsSoon() {
        channel.channels.control.housekeeping.perform(after: .milliseconds(100)) { [weak self] in
            self?.changeRings { $0.openBlocked() }
        }
    }

    // MARK: Descriptors

    /// The descriptors that were found for a frame when it was taken.
    private func takeDescriptors(of frame: borrowing Frame, isCopy: Bool = false) -> PassedDescriptors? {
        guard let token = frame.descriptorToken else { return nil }
        return state.withLock { isCopy ? $0.inbox.descriptors.look(token) : $0.inbox.descriptors.take(token) }
    }

    /// Lets `body` change the sockets for descriptors, and closes what it returns.
    /// - Returns: Whether the port is open.
    @discardableResult
    func changeDescriptors(_ body: (inout DescriptorIntake) -> [DescriptorSocket]) -> Bool {
        // Closed after the lock.
        let closed = state.withLock { state -> [DescriptorSocket]? in
            guard state.lifecycle.isOpen else { return nil }
            return body(&state.inbox.descriptors)
        }
        return closed != nil
    }

    /// The peers that have sockets for descriptors.
    var descriptorPeers: Set<Incarnation> { state.withLock { $0.inbox.descriptors.peers } }

    /// Finds the peers that have closed their ends of all their sockets for descriptors.
    func gone(of peers: Set<Incarnation>) -> Set<Incarnation> {
        state.withLock { $0.inbox.descriptors.gone(of: peers) }
    }

    /// The numbers of messages with descriptors that wait, by their senders.
    var waitingDescriptors: [Incarnation: Int] { state.withLock { $0.inbox.descriptors.waitingCounts } }

    // MARK: The last turn

    /// Refuses new turns.
    /// - Returns: Whether this call is the first one.
    func invalidate() -> Bool { state.withLockUnlessForked { $0.lifecycle.invalidate() } ?? false }

    /// Leaves `finish` to the last turn, if another thread than the one with the id has a turn.
    func finishLater(on thread: Int32, _ finish: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { $0.lifecycle.finishLater(on: thread, hasEnded: { crl_thread_has_ended($0) }, finish) }
    }

    /// Whether another thread has a turn.
    var isOthersTurn: Bool {
        state.withLock { $0.lifecycle.isOthersTurn(on: crl_thread_id(), hasEnded: { crl_thread_has_ended($0) }) }
    }
}
