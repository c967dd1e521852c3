import CRunLoopShims
import Glibc
import RunLoops
import ZeroMQ

/// The receiving end of a port: its socket, and the queue that loops, dispatch queues, tasks and threads take messages
/// from. ``MachPort`` is its face.
///
/// Whoever takes a message does so under one lock that is never held in a callout, so each message is handled once, in the
/// order of dequeue. The socket's descriptor is edge-triggered: after the first message of several it is silent until
/// the last one is taken. So "more is pending" is a fact of the port (`mayHaveMore`), and whoever takes the first message
/// raises the source in every loop and wakes every waiter before the message is handled.
final class Receiver: LocalPort, RegisteredPort {
    typealias FrameHandler = @Sendable (ReceivedFrame) -> Void

    /// A function that is itself a generic type's value is wrapped anew at each access; a field is not.
    struct Handlers: Sendable {
        var frame: FrameHandler?
        /// Makes the handler of a delegate; nil when the delegate is gone.
        var ofDelegate: (@Sendable () -> FrameHandler?)?
    }

    let id: PortID
    let limits: PortLimits
    let channel: SendChannel
    let context: ReceiveContext
    let state: Lock<ReceiverState>
    let invalidated = Promise<Void>()
    /// The registry directory in which the port is exposed when a right to it leaves the runtime.
    let directoryPath: String
    /// Held while a loop takes the port in: until then the socket stays. It is no turn, because the loop may be in the handler
    /// already, which may invalidate the port and must wait for no more than this.
    let scheduling = Lock(())

    init(
        _ limits: PortLimits, directoryPath: String, _ context: ReceiveContext, handlers: Handlers = Handlers()
    ) throws(PortError) {
        let limits = try limits.checked()
        let channels = context.channels
        let id = PortID(incarnation: channels.context.incarnation, number: context.ports.nextNumber())
        let socket = try channels.context.sockets.makePull(
            "inproc://\(id.number)", highWaterMark: Int32(limits.queue), messageLimit: limits.message)
        self.id = id
        self.limits = limits
        self.context = context
        self.directoryPath = directoryPath
        state = Lock(
            ReceiverState(socket: socket, handlers: handlers, credit: CreditReturns(byteLimit: limits.bytes ?? 0)))
        channel = channels.addOwnChannel(
            WireRight(
                id: id, queueLimit: UInt32(limits.queue), limit: limits.message, byteLimit: limits.bytes ?? 0,
                path: ""))
        channel.setLocalPort(self)
        context.ports.add(self)
    }

    deinit { invalidate() }

    var isValid: Bool { state.withLockUnlessForked { $0.lifecycle.isOpen } ?? false }

    /// How many malformed frames were dropped.
    var malformedCount: Int { state.withLockUnlessForked { $0.malformedCount } ?? 0 }

    func setHandlers(_ handlers: Handlers) {
        guard !Fork.isChild else { return }
        var former = handlers
        let source = state.withLock { state in
            // The former handler goes after the lock: what it has captured may call back in here when it is released.
            if state.lifecycle.isOpen { swap(&state.handlers, &former) }
            return state.source
        }
        // The descriptor does not report messages that came before.
        source?.raise()
        wakeWaiters()
    }

    // MARK: Turns

    /// While a thread has a turn, the socket stays.
    func beginTurn() throws(PortError) {
        try Fork.check()
        guard state.withLock({ $0.lifecycle.beginTurn(crl_thread_id()) }) else { throw .isInvalid(port: id) }
    }

    func endTurn() {
        let finish = state.withLock { $0.lifecycle.endTurn(crl_thread_id()) }
        finish?()
    }

    // MARK: Taking

    private enum Taken: ~Copyable {
        case frame(Frame, FrameHandler?, isFirst: Bool)
        /// A part of a multipart message.
        case part(Frame)
        case nothing
    }

    /// A good frame and its handler. (A function in a tuple would be wrapped anew for each message.)
    struct Delivery {
        let frame: ReceivedFrame
        let handler: FrameHandler?
        /// Whether all others who could take messages have to be told before this one is handled.
        let isFirst: Bool
    }

    /// So many malformed frames are dropped before others have their turn.
    private static let mostDropped = 1000

    /// Takes the next good frame.
    ///
    /// - Parameters:
    ///   - needsHandler: Whether a handler will have the frame.
    ///   - source: The source whose turn it is, which saves following the weak reference to it.
    ///   - waiter: The waiter whose turn it is, which needs no wake-up.
    func take(
        needsHandler: Bool = true, source: ThreadRunLoop.Source1? = nil, waiter: (any Waiter)? = nil
    ) -> Delivery? {
        var isFirst = false
        for _ in 0..<Self.mostDropped {
            switch takeFrame(needsHandler, source, waiter) {
            case .nothing:
                if limits.bytes != nil { returnAllCredit() }
                return nil
            case .part(let frame):
                noteMalformed(.severalFrames, in: ReceivedFrame(frame, context.channels))
            case .frame(let frame, let handler, let isFirstNow):
                isFirst = isFirst || isFirstNow
                let size = limits.bytes == nil ? 0 : frame.count
                let frame = ReceivedFrame(frame, context.channels)
                guard frame.header.kind != .drainProbe else {
                    context.control.tellDrained(frame.header.request, of: id.number, to: frame.header.origin)
                    continue
                }
                if size > 0 { returnCredit(size, of: frame) }
                guard let error = frame.malformed else {
                    return Delivery(frame: frame, handler: handler, isFirst: isFirst)
                }
                noteMalformed(error, in: frame)
            }
        }
        tellOthers()
        return nil
    }

    private func takeFrame(
        _ needsHandler: Bool, _ source: ThreadRunLoop.Source1?, _ taker: (any Waiter)?
    ) -> Taken {
        // Released after the lock: the handler may hold the last reference to a delegate.
        var delegateHandler: FrameHandler?
        // Woken after the lock: a task's executor may run the task at once.
        var others: [any Waiter] = []
        defer { for waiter in others where waiter !== taker { waiter.wake() } }
        return state.withLock { state in
            var frame = Frame()
            var handler = state.handlers.frame
            if handler == nil, needsHandler, let ofDelegate = state.handlers.ofDelegate {
                delegateHandler = ofDelegate()
                handler = delegateHandler
            }
            let hasTaker = state.lifecycle.isOpen && (handler != nil || !needsHandler)
            guard hasTaker else {
                // Reading the events silences the descriptor until the next message, for all who watch it.
                if (try? state.socket?.events)?.contains(.receivable) == true { others = state.waiters }
                state.source?.clear()
                return .nothing
            }
            guard (try? state.socket?.receive(&frame)) == true else {
                state.mayHaveMore = false
                if let source { source.clear() } else { state.source?.clear() }
                return .nothing
            }
            if state.isSkipping || frame.isFollowed {
                state.isSkipping = frame.isFollowed
                return .part(frame)
            }
            let isFirst = !state.mayHaveMore
            state.mayHaveMore = true
            // A probe is no message. Only a port that other processes can connect to gets probes.
            if state.exposedIn == nil || !Wire.isDrainProbe(frame) { state.counts.noteTaken() }
            return .frame(frame, handler, isFirst: isFirst)
        }
    }

    /// The first of several messages was taken, and the descriptor is silent until the last: tells all who could take the
    /// others.
    func tellOthers() {
        state.withLock { $0.source }?.raise()
        wakeWaiters()
    }

    func wakeWaiters() { for waiter in state.withLock({ $0.waiters }) { waiter.wake() } }

    private func noteMalformed(_ error: Wire.Malformed, in frame: ReceivedFrame) {
        state.withLock { $0.malformedCount += 1 }
        let (pid, text) = (frame.sender?.pid ?? 0, "\(error)")
        log.warning(about: .process(pid), once: text, "\(id): dropped a frame from process \(pid): \(text)")
    }

    // MARK: Waiting for a message

    /// A waiter is woken when there may be a message for it.
    func add(_ waiter: some Waiter) { state.withLock { $0.waiters.append(waiter) } }

    func remove(_ waiter: some Waiter) { state.withLock { $0.waiters.removeAll { $0 === waiter } } }

    /// Waits for the next message and takes it.
    func receive(before deadline: MonotonicInstant) throws(PortError) -> ReceivedFrame {
        try beginTurn()
        defer { endTurn() }
        if let frame = takeMessage() { return frame }
        let waiter = ThreadWaiter()
        add(waiter)
        defer { remove(waiter) }
        while true {
            // Messages that came before the waiter was added wake nobody.
            if let frame = takeMessage() { return frame }
            let descriptor = try state.withLock { (state) throws(PortError) in
                guard state.lifecycle.isOpen else { throw .becameInvalid(port: id) }
                return try state.socket?.watchedDescriptor()
            }
            // Frames that are no messages may keep coming.
            guard !deadline.hasPassed, waiter.wait(for: descriptor, until: deadline) else {
                throw .receiveTimedOut(port: id)
            }
        }
    }

    /// The same, suspending the task.
    nonisolated(nonsending) func receive(before deadline: MonotonicInstant) async throws -> ReceivedFrame {
        try Task.checkCancellation()
        if let frame = try takeNow() { return frame }
        let waiter = TaskWaiter(context.housekeeping)
        add(waiter)
        defer { remove(waiter) }
        while true {
            // Messages that came before the waiter was added wake nobody.
            var isWatched = false
            if let frame = try takeNow(orWatchWith: waiter, &isWatched) { return frame }
            if deadline.hasPassed { throw PortError.receiveTimedOut(port: id) }
            if isWatched {
                try await waiter.wait(until: deadline)
            } else {
                // No descriptor is left to watch with: poll.
                try await Task.sleep(for: .milliseconds(10))
            }
            try Task.checkCancellation()
        }
    }

    private func takeNow() throws(PortError) -> ReceivedFrame? {
        try beginTurn()
        defer { endTurn() }
        return takeMessage()
    }

    /// - Parameter isWatched: Whether the waiter will be woken by the next message: not when no descriptor is left.
    private func takeNow(orWatchWith waiter: TaskWaiter, _ isWatched: inout Bool) throws(PortError) -> ReceivedFrame? {
        // The socket has to stay until it is watched.
        do { try beginTurn() } catch { throw error == .isInvalid(port: id) ? .becameInvalid(port: id) : error }
        defer { endTurn() }
        if let frame = takeMessage() { return frame }
        let descriptor = try state.withLock { (state) throws(PortError) in try state.socket?.watchedDescriptor() }
        if let descriptor { isWatched = (try? waiter.watch(descriptor)) != nil }
        return nil
    }

    private func takeMessage() -> ReceivedFrame? {
        while let delivery = take(needsHandler: false) {
            if delivery.isFirst { tellOthers() }
            if delivery.frame.header.kind == .message { return delivery.frame }
            delivery.frame.refuse()
        }
        return nil
    }

    // MARK: Credit

    /// The sender of a frame may send so many bytes more.
    private func returnCredit(_ bytes: Int, of frame: ReceivedFrame) {
        if frame.isOwn { return channel.returnCredit(bytes) }
        let origin = frame.header.origin
        let (due, isTooMany) = state.withLock { state in
            (state.credit.take(bytes, from: origin), state.credit.count > ControlConnections.most)
        }
        if due > 0 { context.control.returnCredit(due, of: id.number, to: origin) }
        if isTooMany { returnAllCredit() }
    }

    private func returnAllCredit() {
        for (origin, bytes) in state.withLock({ $0.credit.returnAll() }) {
            context.control.returnCredit(bytes, of: id.number, to: origin)
        }
    }

    // MARK: Statistics

    /// A process says how many messages it has sent to the port.
    func note(sent count: Int, by sender: Incarnation) { state.withLock { $0.counts.note(sent: count, by: sender) } }

    func senderDied(_ sender: Incarnation) { state.withLock { $0.counts.senderDied(sender) } }

    /// How many other processes' counts are kept.
    var knownSenderCount: Int { state.withLock { $0.counts.knownSenderCount } }

    /// The statistics, with the last counts of senders in other processes.
    var statistics: PortStatistics {
        let ownCount = channel.sentCount
        let (statistics, isNews) = state.withLock { state in
            let isEmpty = (try? state.socket?.events)?.contains(.receivable) != true
            // Reading the events has silenced the descriptor.
            let isNews = !isEmpty && !state.mayHaveMore
            if isNews { state.mayHaveMore = true }
            return (state.counts.statistics(ownSent: ownCount, isEmpty: isEmpty, now: .now), isNews)
        }
        if isNews { tellOthers() }
        return statistics
    }
}
