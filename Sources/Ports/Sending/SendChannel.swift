import CShims
import Glibc
import RunLoops
import ZeroMQ

/// This runtime's way to one port: one socket, shared by all rights to the port and all threads that use them.
final class SendChannel: Sendable, CustomStringConvertible {
    let id: PortID
    let queueLimit: Int32
    let messageLimit: Int
    /// The most bytes in flight, beyond one message; 0: any number.
    let byteLimit: Int
    /// The owner's registry directory; empty for a port of this runtime.
    let path: String
    let isLocal: Bool
    /// The origin of frames: this runtime's mark when they stay in the runtime, otherwise 0.
    let mark: UInt32
    let channels: ChannelTable

    struct ChannelState: ~Copyable {
        var queue: SendState
        /// Nil unless the queue is connecting or connected.
        var socket: Socket?
        weak var localPort: (any LocalPort)?
    }

    let state: Lock<ChannelState>
    private let invalidated = Promise<Void>()

    /// - Parameters:
    ///   - isLocal: Whether the port is one of this runtime's.
    ///   - sentCount: The messages that a former channel has sent to the port.
    init(_ right: WireRight, in channels: ChannelTable, isLocal: Bool = false, sentCount: Int = 0) {
        id = right.id
        queueLimit = Int32(clamping: max(right.queueLimit, 1))
        messageLimit = right.limit
        byteLimit = right.byteLimit
        path = right.path
        self.isLocal = isLocal
        mark = isLocal ? channels.context.mark : 0
        self.channels = channels
        let queue = SendState(byteLimit: byteLimit, isLocal: isLocal, sentCount: sentCount)
        state = Lock(ChannelState(queue: queue))
    }

    /// A channel to a port that is gone.
    static func invalid(_ right: WireRight, in channels: ChannelTable) -> SendChannel {
        let channel = SendChannel(right, in: channels)
        channel.shut()
        channel.invalidated.set(())
        return channel
    }

    deinit { channels.remove(id) }

    var context: SendContext { channels.context }

    var description: String { id.description }

    /// The right as it travels.
    ///
    /// - Parameter leaving: Whether the right leaves this runtime. A port of this runtime is then exposed first.
    func wireRight(leaving: Bool) throws(PortError) -> WireRight {
        var path = path
        if isLocal, leaving, let port = localPort { path = try port.expose() }
        return WireRight(
            id: id, queueLimit: UInt32(queueLimit), limit: messageLimit, byteLimit: byteLimit, path: path)
    }

    func setLocalPort(_ port: any LocalPort) { state.withLock { $0.localPort = port } }

    private var localPort: (any LocalPort)? { state.withLock { $0.localPort } }

    /// The messages that were sent to the port.
    var sentCount: Int { state.withLock { $0.queue.sentCount } }

    /// The threads and tasks that wait for room or for a connection.
    var waiterCount: Int { state.withLock { $0.queue.waiters.count } }

    // MARK: Sending

    /// Sends the frame. After an error the frame stays the caller's.
    func send(_ frame: inout Frame, before deadline: MonotonicInstant) throws(PortError) {
        if try sendAtOnce(&frame, before: deadline) { return }
        if isLocal, localPort?.isServedOnlyHere == true { throw .ownQueueFull(port: id) }
        let waiter = ThreadWaiter()
        join(waiter)
        defer { leave(waiter) }
        try send(&frame, as: waiter, before: deadline)
    }

    /// As the form that blocks, suspending the task.
    nonisolated(nonsending) func send(_ frame: consuming Frame, before deadline: MonotonicInstant) async throws {
        if try sendAtOnce(&frame, before: deadline) { return }
        let deferred = try DeferredSend(frame, to: self, before: deadline)
        try await deferred.send()
    }

    /// With so many waiters, a posted frame is refused.
    private static let mostWaiting = 100

    /// Sends the frame now, or later when there is room and a connection. Returns at once.
    ///
    /// - Parameter failed: Called on the housekeeping thread when the frame was not sent before the deadline.
    func post(
        _ frame: consuming Frame, before deadline: MonotonicInstant,
        failed: @escaping @Sendable (any Error) -> Void
    ) throws(PortError) {
        if try sendAtOnce(&frame, before: deadline, isLast: true) { return }
        guard waiterCount < Self.mostWaiting else { throw .sendTimedOut(port: id) }
        let deferred = try DeferredSend(frame, to: self, before: deadline)
        // The exit waits only for frames to other processes.
        let (context, count) = (context, isLocal ? 0 : 1)
        context.postedCount.add(count, ordering: .relaxed)
        deferred.start { end in
            context.postedCount.subtract(count, ordering: .relaxed)
            withExtendedLifetime(deferred) {}
            switch end {
            case .sent: break
            case .failed(let error): failed(error)
            }
        }
    }

    /// - Parameter isLast: Whether the waiters go first: an earlier frame of the same thread may be one of them.
    /// - Returns: False when the frame has to wait.
    private func sendAtOnce(
        _ frame: inout Frame, before deadline: MonotonicInstant, isLast: Bool = false
    ) throws(PortError) -> Bool {
        try Fork.check()
        return try state.withLock { (state) throws(PortError) in
            try state.queue.check(.isInvalid(port: id))
            if state.queue.mayTry(isLast: isLast), try trySend(&frame, &state) { return true }
            if state.queue.isConnected, deadline.hasPassed { throw .sendTimedOut(port: id) }
            return false
        }
    }

    /// A right's first use has to connect, whatever the deadline. A live owner needs far less than a second.
    static func connectDeadline(_ deadline: MonotonicInstant) -> MonotonicInstant {
        max(deadline, .now + .seconds(1))
    }

    /// How long an ipc connection may take: libzmq neither retries nor reports one that was not accepted.
    static let acceptPatience = Duration.milliseconds(100)

    /// A waiter's next step.
    enum NextStep {
        case done
        case waitForTurn(isConnected: Bool)
        case connect
        case watch(Int32, isConnected: Bool)
    }

    private func send(_ frame: inout Frame, as waiter: ThreadWaiter, before deadline: MonotonicInstant)
        throws(PortError)
    {
        let connectDeadline = Self.connectDeadline(deadline)
        while true {
            switch try nextStep(&frame, waiter) {
            case .done:
                return
            case .waitForTurn(let isConnected):
                guard waiter.wait(for: nil, until: isConnected ? deadline : connectDeadline) else {
                    throw isConnected ? .sendTimedOut(port: id) : notAccepted
                }
            case .connect:
                try connect(before: connectDeadline)
            case .watch(let descriptor, isConnected: true):
                guard waiter.wait(for: descriptor, until: deadline) else { throw .sendTimedOut(port: id) }
            case .watch(let descriptor, isConnected: false):
                if waiter.wait(for: descriptor, until: min(connectDeadline, .now + Self.acceptPatience)) { continue }
                guard !connectDeadline.hasPassed else { throw notAccepted }
                dropUnaccepted()
            }
        }
    }

    func nextStep(_ frame: inout Frame, _ waiter: some Waiter) throws(PortError) -> NextStep {
        try Fork.check()
        return try state.withLock { (state) throws(PortError) -> NextStep in
            try state.queue.check(.becameInvalid(port: id))
            let isConnected = state.queue.isConnected
            guard state.queue.isFirst(waiter) else { return .waitForTurn(isConnected: isConnected) }
            if try trySend(&frame, &state) { return .done }
            // Returned credit wakes the waiter, and the socket's descriptor does not.
            if state.queue.credit.isLacking { return .waitForTurn(isConnected: isConnected) }
            guard let descriptor = try state.socket?.watchedDescriptor() else { return .connect }
            return .watch(descriptor, isConnected: isConnected)
        }
    }

    /// Sends if there is a socket, credit and room.
    private func trySend(_ frame: inout Frame, _ state: inout ChannelState) throws(PortError) -> Bool {
        if isLocal, state.socket == nil {
            state.socket = try context.sockets.makeLocalPush("inproc://\(id.number)")
            state.queue.connect()
        }
        let size = byteLimit > 0 ? frame.count : 0
        guard state.queue.takeCredit(size) else { return false }
        if byteLimit > 0, !isLocal { Wire.setOrigin(state.queue.origin, of: &frame) }
        guard try state.socket?.sendNow(&frame) == true else {
            state.queue.noteFull()
            return false
        }
        state.queue.noteSent(size)
        return true
    }

    func join(_ waiter: some Waiter) { state.withLock { $0.queue.add(waiter) } }

    func leave(_ waiter: some Waiter) { state.withLock { $0.queue.remove(waiter) }?.wake() }

    func returnCredit(_ bytes: Int) { state.withLock { $0.queue.returnCredit(bytes) }?.wake() }

    func controlConnectionEnded() { state.withLock { $0.queue.controlConnectionEnded() }?.wake() }

    // MARK: Replies

    /// Tells the asker, to whom the channel leads, that its request gets no reply.
    func refuse(_ request: UInt64) {
        if isLocal {
            context.events.requestUnanswered(request, by: context.incarnation)
        } else {
            context.control.tellUnanswered(request, to: id.incarnation)
        }
    }

    // MARK: The end

    var isValid: Bool {
        state.withLockUnlessForked { $0.queue.lifecycle != .invalid && $0.queue.lifecycle != .closed } ?? false
    }

    /// Whether somebody waits for the port's end.
    var isWatched: Bool { state.withLock { $0.queue.isWatched } }

    func noteWatched() { state.withLock { $0.queue.watch() } }

    /// Calls the handler when the port becomes invalid, or at once.
    func onInvalidation(_ handler: @escaping @Sendable () -> Void) {
        guard !Fork.isChild else { return }
        invalidated.whenSet { handler() }
        if invalidated.value == nil { watch() }
    }

    /// Asks the owner to report the port's end, now or when there is a connection. Never waits.
    func watch() {
        guard !isLocal else { return }
        noteWatched()
        context.control.watch(id, at: controlAddress)
    }

    /// Ends sending, and fails all waiters.
    func shut() { end(.invalid) }

    /// The port is gone.
    func invalidate() {
        shut()
        context.connections.remove(self)
        context.events.channelBecameInvalid(id)
        invalidated.set(())
    }

    /// Ends the channel with its runtime. libzmq may use the milliseconds to flush.
    func close(linger milliseconds: Int32) {
        // The owner cannot ask for the count any more.
        if !isLocal, sentCount > 0 { context.control.tellSent(sentCount, to: id) }
        end(.closed, linger: milliseconds)
        invalidated.dropHandlers()
    }

    private func end(_ end: SendState.Lifecycle, linger milliseconds: Int32? = nil) {
        let waiters = state.withLock { state in
            if !isLocal, let milliseconds { try? state.socket?.set(.linger(milliseconds)) }
            state.socket = nil
            return state.queue.end(end)
        }
        for waiter in waiters { waiter.wake() }
    }
}

extension Socket {
    /// Sends without waiting.
    func sendNow(_ frame: inout Frame) throws(PortError) -> Bool {
        do throws(ZeroMQError) {
            // libzmq reads its commands only now and then; reading the events makes it look again for room.
            if try send(&frame) { return true }
            return try events.contains(.sendable) ? send(&frame) : false
        } catch {
            throw PortError(error)
        }
    }
}
