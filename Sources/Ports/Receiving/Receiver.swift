import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops
import Synchronization
import ZeroMQ

/// The receiving end of a port: the socket from which loops, dispatch queues, tasks and threads take messages.
/// ``MachPort`` is its public face.
///
/// Messages are dequeued under one lock, which is never held in a callout, so each message is handled once. The
/// socket's descriptor is edge-triggered: after the first of several messages it is silent until the queue is empty. So
/// the port itself remembers that it may have more (`mayHaveMore`). The taker of the first message raises the source in
/// every loop, and wakes every waiter, before it handles the message.
final class Receiver: LocalPort, RegisteredPort {
    typealias Handler = @Sendable (consuming ReceivedMessage) -> Void

    /// A struct, because a function as the value of a generic type is wrapped again at each access.
    struct Handlers: Sendable {
        var message: Handler?
        /// Makes the handler of a delegate; nil when the delegate is gone.
        var ofDelegate: (@Sendable () -> Handler?)?
        /// Counts the changes.
        var generation = 0

        /// Calls the handler of messages. If nobody has retained the message, it goes to `used`.
        func handle(_ local: consuming LocalMessage, _ used: inout LocalQueue.Batch) {
            let depth: UnsafeMutablePointer<Int32> = crl_callout_depth()
            depth.pointee += 1
            message?(.local(copy local))
            depth.pointee -= 1
            if local.empty() { used.prepend(local) }
        }

        func handle(_ frame: ReceivedFrame) {
            crl_callout_depth().pointee += 1
            message?(.frame(frame))
            crl_callout_depth().pointee -= 1
        }
    }

    let id: PortID
    let hasByteLimit: Bool
    let channel: SendChannel
    let context: ReceiveContext
    let state: Lock<ReceiverState>
    let invalidated = Promise<Void>()
    /// The registry directory for the port's socket, when a right to the port leaves the runtime.
    let directoryPath: String
    /// Keeps the socket open while a loop adds the port's source. A turn could not, because the loop may call the
    /// handler at once, and an invalidation in the handler waits for turns.
    let scheduling = Lock(())
    /// The requests of a message port that were taken; nil for another port.
    let requests: TakenRequests?
    /// The tasks in a `for await` over the port's messages.
    let iteratingTasks = Atomic(0)
    let inHand = MessageInHand()
    /// Whether the port has had a lane.
    let hasLanes = Atomic(false)
    /// Whether a call of `receive(before:)` has taken a message, and nobody has asked for another since.
    let isReceiverAway = Atomic(false)

    init(
        _ limits: PortLimits, directoryPath: String, _ context: ReceiveContext, _ requests: TakenRequests? = nil,
        handlers: Handlers = Handlers()
    ) throws(PortError) {
        let channels = context.channels
        id = PortID(incarnation: channels.incarnation, number: context.ports.nextNumber())
        let right = try limits.right(id)
        let socket = try channels.sockets.makePull(
            for: id, highWaterMark: Int32(right.queueLimit), messageLimit: right.limit)
        hasByteLimit = right.byteLimit > 0
        self.context = context
        self.directoryPath = directoryPath
        self.requests = requests
        let queue = LocalQueue(limit: Int(right.queueLimit))
        state = Lock(
            ReceiverState(
                socket: socket, arrivals: Arrivals(queue, mark: channels.mark), handlers: handlers,
                credit: CreditReturns(byteLimit: right.byteLimit)))
        channel = channels.addOwnChannel(right, queue)
        channel.localPort = self
        context.ports.add(self)
        if Log.tellsMessages { addTap(MessageLog(channel, requests)) }
    }

    deinit { invalidate() }

    var isValid: Bool { state.withLockUnlessForked { $0.lifecycle.isOpen } ?? false }

    /// The malformed frames that were dropped.
    var malformedCount: Int { state.withLockUnlessForked { $0.malformedCount } ?? 0 }

    func setHandlers(_ handlers: Handlers) {
        guard !Fork.isChild else { return }
        var former = handlers
        state.withLock { state in
            // The former handler is released after the lock, because the release may call this object again.
            guard state.lifecycle.isOpen else { return }
            state.tapped?.handlers = handlers
            former = handlers.tapped(by: state.tapped?.taps, generation: state.handlers.generation + 1)
            swap(&state.handlers, &former)
        }
        tellOthersIfAny()
    }

    // MARK: Turns

    /// Keeps the socket open until `endTurn`.
    func beginTurn() throws(PortError) {
        try Fork.check()
        guard state.withLock({ $0.lifecycle.beginTurn(crl_thread_id()) }) else { throw .isInvalid(port: identity) }
    }

    func endTurn() {
        // A handler may have forked.
        let finish = state.withLockUnlessForked { $0.lifecycle.endTurn(crl_thread_id()) } ?? nil
        finish?()
    }

    // MARK: Taking

    private enum Taken: ~Copyable {
        case local(LocalMessage, Handler?, isFirst: Bool, makesRoom: Bool, isLast: Bool)
        case frame(ZeroMQFrame, sender: MessageSender?, Handler?, isFirst: Bool, isLast: Bool)
        /// A part of a multipart message.
        case part(ZeroMQFrame)
        case nothing
    }

    /// A taken message, local or a frame, and its handler. A struct, because a function in a tuple is wrapped again for
    /// each message.
    struct Delivery: ~Copyable {
        var local: LocalMessage?
        var frame: ReceivedFrame?
        let handler: Handler?
        /// Whether all other takers must be told before this message is handled.
        let isFirst: Bool

        var message: ReceivedMessage? { local.map(ReceivedMessage.local) ?? frame.map(ReceivedMessage.frame) }

        /// Calls the handler. If nobody has retained the message, it goes to `used`.
        mutating func handle(_ used: inout LocalQueue.Batch, _ inHand: borrowing MessageInHand) {
            let handlers = Handlers(message: handler)
            if let local = local.take() {
                inHand.note(local)
                handlers.handle(local, &used)
            }
            if let frame { inHand.show(frame) { handlers.handle(frame) } }
        }
    }

    /// The most malformed frames that are dropped in one turn.
    private static let mostDropped = 1000

    /// Takes the next message that is not malformed.
    ///
    /// - Parameters:
    ///   - needsHandler: Whether to take a message only for a handler.
    ///   - source: The source that takes, which avoids the cost of the weak reference.
    ///   - waiter: The waiter that takes, which needs no wake-up.
    func take(
        needsHandler: Bool = true, source: ThreadRunLoop.Source1? = nil, waiter: (any Waiter)? = nil
    ) -> Delivery? {
        var reports = Arrivals.Reports.all
        return take(needsHandler: needsHandler, source: source, waiter: waiter, &reports)
    }

    /// - Parameter reports: The descriptors that have reported something since they were last checked, without those that
    ///   the call has checked.
    func take(
        needsHandler: Bool = true, source: ThreadRunLoop.Source1?, waiter: (any Waiter)? = nil,
        _ reports: inout Arrivals.Reports
    ) -> Delivery? {
        var isFirst = false
        for _ in 0..<Self.mostDropped {
            switch takeNext(needsHandler, source, waiter, &reports) {
            case .nothing:
                if hasByteLimit { returnAllCredit() }
                return nil
            case .local(let message, let handler, let isFirstNow, let makesRoom, let isLast):
                // The sender of a lane sees what was taken.
                if hasByteLimit, message.sender == nil { channel.returnCredit(message.size) }
                if isLast { returnAllCredit() }
                if makesRoom { channel.roomWasMade() }
                return Delivery(local: message, handler: handler, isFirst: isFirst || isFirstNow)
            case .part(let frame):
                noteMalformed(.severalFrames, in: ReceivedFrame(frame, context.channels))
            case .frame(let frame, let sender, let handler, let isFirstNow, let isLast):
                isFirst = isFirst || isFirstNow
                let size = frame.count
                let frame = checked(frame, sender)
                if let frame, frame.header.kind == .drainProbe {
                    answer(frame)
                    continue
                }
                // A malformed frame has no origin.
                if hasByteLimit, sender == nil { collectCredit(size, for: frame?.header.origin ?? 0, isLast: isLast) }
                if let frame { return Delivery(frame: frame, handler: handler, isFirst: isFirst) }
            }
        }
        tellOthers()
        return nil
    }

    /// Takes the next message for a handler, unless the message may be the first or the last. The short way of most
    /// messages. The handlers are those of an earlier message, because a copy for each message would cost a retain and
    /// a release.
    ///
    /// - Parameters:
    ///   - handlers: The handlers of an earlier message. Set when they have changed.
    ///   - frame: Set when the message is a frame.
    ///   - sender: Set to the sender of a frame of a lane.
    ///   - reports: Emptied after a check of the descriptors that has found nothing.
    func takeAtHand(
        _ handlers: inout Handlers, _ frame: inout ZeroMQFrame?, _ sender: inout MessageSender?,
        _ reports: inout Arrivals.Reports
    ) -> LocalMessage? {
        guard !hasByteLimit else { return nil }
        var makesRoom = false
        // The former handlers are released after the lock.
        var newHandlers: Handlers?
        let message: LocalMessage? = state.withLock { state in
            guard state.mayHaveMore, state.lifecycle.isOpen, state.handlers.message != nil, !state.isSkipping else {
                return nil
            }
            var message: LocalMessage?
            if state.arrivals.hasPeers {
                switch state.arrivals.nextOfPeers(state.socket, &reports) {
                case .local(let plain): message = plain
                case .frame(let found, let lane):
                    frame = consume found
                    sender = lane
                case .nothing: break
                }
            }
            if frame == nil, message == nil {
                message = state.arrivals.nextOfBatch(makesRoom: &makesRoom)
                if message == nil { return nil }
            }
            if handlers.generation != state.handlers.generation { newHandlers = state.handlers }
            state.counts.noteTaken()
            return message
        }
        if let newHandlers { handlers = newHandlers }
        if makesRoom { channel.roomWasMade() }
        return message
    }

    /// The received frame, unless it is malformed.
    func checked(_ frame: consuming ZeroMQFrame, _ sender: MessageSender?) -> ReceivedFrame? {
        let frame = ReceivedFrame(frame, sender: sender, context.channels)
        guard let error = frame.malformed else { return frame }
        noteMalformed(error, in: frame)
        return nil
    }

    private func takeNext(
        _ needsHandler: Bool, _ source: ThreadRunLoop.Source1?, _ taker: (any Waiter)?,
        _ reports: inout Arrivals.Reports
    ) -> Taken {
        // Released after the lock, because the closure may hold the last reference to a delegate.
        var delegateHandler: Handler?
        // Woken after the lock, because a task's executor may run the task at once.
        var others: [any Waiter] = []
        defer { for waiter in others where waiter !== taker { waiter.wake() } }
        return state.withLock { state in
            var handler = needsHandler ? state.handlers.message : state.tapped?.taken
            if handler == nil, needsHandler, let ofDelegate = state.handlers.ofDelegate {
                delegateHandler = ofDelegate()
                handler = delegateHandler
            }
            guard state.lifecycle.isOpen, handler != nil || !needsHandler else {
                // A check silences the descriptor for all takers until the next message.
                if !state.looksEmpty() { others = state.waiters }
                state.source?.clear()
                return .nothing
            }
            let isFirst = !state.mayHaveMore
            var makesRoom = false
            switch state.arrivals.next(state.socket, &reports, makesRoom: &makesRoom) {
            case .nothing:
                state.mayHaveMore = false
                if state.arrivals.lanes.lacksMemory {
                    context.housekeeping.perform(after: .milliseconds(100)) { [weak self] in self?.retryLanes() }
                }
                if let source { source.clear() } else { state.source?.clear() }
                return .nothing
            case .local(let message):
                state.mayHaveMore = true
                state.counts.noteTaken()
                let isLast = hasByteLimit && message.sender == nil && state.arrivals.isEmpty(state.socket)
                return .local(message, handler, isFirst: isFirst, makesRoom: makesRoom, isLast: isLast)
            case .frame(let frame, let sender):
                if sender == nil, state.isSkipping || frame.isFollowed {
                    state.isSkipping = frame.isFollowed
                    return .part(frame)
                }
                state.mayHaveMore = true
                // A drain probe is no message.
                if !Wire.isDrainProbe(frame) { state.counts.noteTaken() }
                let isLast = hasByteLimit && state.arrivals.isEmpty(state.socket)
                return .frame(frame, sender: sender, handler, isFirst: isFirst, isLast: isLast)
            }
        }
    }

    /// Tells all takers that there may be more messages, which the descriptor does not report.
    func tellOthers() {
        state.withLock { $0.source }?.raise()
        wakeWaiters()
    }

    /// Tells all takers about messages that came before there was a handler, because the descriptor does not report
    /// those again. Without a message nobody is told, because a turn that finds nothing would use the one event of the
    /// loop's pass.
    func tellOthersIfAny() {
        let hasMore = state.withLock { state in
            guard state.lifecycle.isOpen else { return false }
            state.mayHaveMore = state.arrivals.hasMore(state.socket)
            return state.mayHaveMore
        }
        if hasMore { tellOthers() }
    }

    /// Whether a message waits that the socket's descriptor does not report, or the port has ended. If neither is true,
    /// the descriptor reports the next message.
    func mayHaveMore() -> Bool {
        // A handler may have forked.
        let mayHaveMore =
            state.withLockUnlessForked { state in
                guard state.lifecycle.isOpen else { return true }
                guard state.mayHaveMore else { return false }
                state.mayHaveMore = state.arrivals.hasMore(state.socket)
                if !state.mayHaveMore { state.source?.clear() }
                return state.mayHaveMore
            } ?? true
        if hasByteLimit, !mayHaveMore { returnAllCredit() }
        return mayHaveMore
    }

    func wakeWaiters() { for waiter in state.withLock({ $0.waiters }) { waiter.wake() } }

    private func noteMalformed(_ error: Wire.Malformed, in frame: ReceivedFrame) {
        state.withLock { $0.malformedCount += 1 }
        // The program is looked up only for a line that is written, so a flood of such frames costs little.
        let (sender, text) = (frame.sender?.pid ?? 0, "\(error)")
        log.warning(
            about: .process(sender), once: text,
            "\(identity) dropped a frame of \(ProcessIdentity(pid: sender)): \(text)")
    }

    // MARK: Drain probes

    /// Answers the probes before which no message waits, because perhaps nobody takes from the port now.
    func answerProbesSoon() {
        answerProbes()
        // The notice of a probe travels by another connection than the probe, and may arrive first. So the queue is
        // checked again later.
        guard !state.withLock({ exchange(&$0.looksForProbes, with: true) }) else { return }
        context.housekeeping.perform(after: .milliseconds(100)) { [weak self] in
            self?.state.withLock { $0.looksForProbes = false }
            self?.answerProbes()
        }
    }

    private func answerProbes() {
        var probes: [ReceivedFrame] = []
        let isEmpty = state.withLock { state in
            guard state.lifecycle.isOpen, !state.isSkipping else { return true }
            while probes.count < Self.mostDropped, let probe = state.arrivals.nextProbe(state.socket) {
                probes.append(ReceivedFrame(probe, context.channels))
            }
            return state.looksEmpty()
        }
        // The check has silenced the descriptor.
        if !isEmpty { tellOthers() } else if hasByteLimit { returnAllCredit() }
        for probe in probes { answer(probe) }
    }

    private func answer(_ probe: ReceivedFrame) {
        context.control.send(.drained(id.number, probe: probe.header.request), to: probe.header.origin)
    }

    // MARK: Statistics

    var totals: PortTotals { state.withLock { PortTotals(taken: $0.counts.taken, malformed: $0.malformedCount) } }

    /// The registered names of the port, without internal names of the library.
    var serviceNames: [String] { state.withLock { $0.names.elements.filter(\.isService).map(\.name) } }

    func note(sent count: Int, by sender: Incarnation) { state.withLock { $0.counts.note(sent: count, by: sender) } }

    func senderDied(_ sender: Incarnation, _ owner: ProcessIdentity) {
        state.withLock { $0.counts.senderDied(sender, owner) }
    }

    /// A process that may have sent messages has ended before anybody has asked it for their number.
    func unaskedSenderDied(_ owner: ProcessIdentity) {
        let isEmpty = state.withLock { state in
            let isEmpty = state.looksEmpty()
            if !isEmpty { state.counts.unaskedSenderDied(owner) }
            return isEmpty
        }
        // The check has silenced the descriptor.
        if !isEmpty { tellOthers() }
    }

    var knownSenderCount: Int { state.withLock { $0.counts.knownSenderCount } }

    /// The statistics, with the last counts of senders in other processes, and whether the port's own queue is empty.
    /// - Parameter isComplete: Whether all senders have just answered.
    func look(isComplete: Bool = true) -> (statistics: PortStatistics, isEmpty: Bool) {
        let found = state.withLock { state in
            // Read under the lock, because messages that are taken meanwhile would look as if they had never been sent.
            let ownCount = channel.acceptedCount
            let isEmpty = state.looksEmpty()
            let now = isComplete ? MonotonicInstant.now : nil
            return (state.counts.statistics(ownSent: ownCount, isEmpty: isEmpty, now: now), isEmpty)
        }
        // The check has silenced the descriptor.
        if !found.1 { tellOthers() }
        return found
    }
}

/// The queue limit, the byte limit and the message limit of a port, as ``MachPort`` explains them.
struct PortLimits: Sendable {
    var queue = 1000
    var bytes: Int?
    var message = 64 << 20

    /// The right to a new port.
    /// - Throws: ``PortError``: `invalidLimit` for a limit below 1, or beyond the limits of libzmq and the wire format.
    func right(_ id: PortID) throws(PortError) -> WireRight {
        try PortError.check("queueLimit", queue, in: 1...Int(Int32.max) - 1)
        try PortError.check("byteLimit", bytes ?? 1, in: 1...Int.max)
        try PortError.check("messageLimit", message, in: 1...Wire.largestMessage)
        return WireRight(
            id: id, queueLimit: UInt32(queue), limit: min(message, bytes ?? .max), byteLimit: bytes ?? 0, path: "")
    }
}

/// The state of a receiver, which its lock guards.
struct ReceiverState: ~Copyable {
    var socket: ZeroMQSocket?
    var arrivals: Arrivals
    var handlers: Receiver.Handlers
    var tapped: Receiver.Tapped?
    weak var source: ThreadRunLoop.Source1?
    /// Where ``source`` is scheduled.
    var places: [Receiver.Place] = []
    /// Handles the messages of lanes in the same loops; nil before the first lane.
    var bellSource: ThreadRunLoop.Source1?
    /// The socket and the bells, for waiters that wait for one descriptor; nil before the first lane.
    var both: DescriptorSet?
    /// Whether messages may wait that the socket's descriptor does not report.
    var mayHaveMore = false
    var lifecycle = ReceiverLifecycle()
    var waiters: [any Waiter] = []
    /// Whether a thread or a task has ever waited for a message. It may come back for the next.
    var hasHadWaiters = false
    /// The dispatch queue that handles messages; one of the waiters.
    var queue: QueueService?
    /// The registry directory with the port's socket; nil until the port is exposed.
    var exposedIn: RegistryDirectory?
    var names = RecentSet<RegisteredName>()
    var counts = StatisticsCounts()
    /// The number of messages that were taken at the last inspection, and the time since which it has not changed.
    var seen: (taken: Int, since: MonotonicInstant)?
    var credit: CreditReturns
    /// Whether the rest of a multipart message is being skipped. This library sends none.
    var isSkipping = false
    var malformedCount = 0
    /// Whether the housekeeping thread will look for drain probes.
    var looksForProbes = false

    mutating func add(_ waiter: some Waiter) {
        waiters.append(waiter)
        if !(waiter is any Service) { hasHadWaiters = true }
    }

    /// The descriptor that reports messages; nil after the port's end.
    func watchedDescriptor() throws(PortError) -> Int32? {
        let own = try socket?.watchedDescriptor()
        return own == nil ? nil : both?.descriptor ?? own
    }

    /// Forgets a place, and those whose loops have ended.
    mutating func removePlace(_ loop: ThreadRunLoop, _ mode: ThreadRunLoop.Mode) {
        places.removeAll { $0.loop == nil || $0.mode == mode && $0.loop === loop }
    }

    /// Whether no message waits. The check silences the descriptor, so all takers have to be told if a message waits.
    mutating func looksEmpty() -> Bool {
        let isEmpty = arrivals.isEmpty(socket)
        if !isEmpty { mayHaveMore = true }
        return isEmpty
    }
}
