import Glibc
import RunLoopLocks
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
    /// The messages to a port of this runtime; nil for a port of another process.
    let localQueue: LocalQueue?
    let channels: ChannelTable

    struct ChannelState: ~Copyable {
        var queue: SendState
        /// Nil unless the queue is connecting or connected.
        var socket: Socket?
        weak var localPort: (any LocalPort)?
    }

    let state: Lock<ChannelState>
    let invalidated = Promise<Void>()

    /// - Parameters:
    ///   - localQueue: The messages to a port of this runtime.
    ///   - sentCount: The messages that a former channel has sent to the port.
    init(_ right: WireRight, in channels: ChannelTable, localQueue: LocalQueue? = nil, sentCount: Int = 0) {
        id = right.id
        queueLimit = Int32(clamping: max(right.queueLimit, 1))
        messageLimit = right.limit
        byteLimit = right.byteLimit
        path = right.path
        self.localQueue = localQueue
        self.channels = channels
        let queue = SendState(byteLimit: byteLimit, isLocal: localQueue != nil, sentCount: sentCount)
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

    /// Whether the port is one of this runtime's.
    var isLocal: Bool { localQueue != nil }

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

    /// The bytes of the right in a frame.
    var wireSize: Int { WireRight.fixedSize + path.utf8.count }

    func setLocalPort(_ port: any LocalPort) { state.withLock { $0.localPort = port } }

    private var localPort: (any LocalPort)? { state.withLock { $0.localPort } }

    /// The messages that were sent to the port.
    var sentCount: Int { localQueue?.admittedCount ?? state.withLock { $0.queue.sentCount } }

    /// The threads and tasks that wait for room or for a connection.
    var waiterCount: Int { state.withLock { $0.queue.waiters.count } }

    // MARK: Sending

    /// Sends the message. After an error the message stays the caller's.
    func send(_ message: inout OutgoingMessage, before deadline: MonotonicInstant) throws(PortError) {
        if try sendAtOnce(&message, before: deadline) { return }
        if isLocal, localPort?.isServedOnlyHere == true { throw .ownQueueFull(port: id) }
        let waiter = ThreadWaiter()
        join(waiter)
        defer { leave(waiter) }
        try send(&message, as: waiter, before: deadline)
    }

    /// Sends a message of one component of bytes to a port of this runtime.
    func send(
        id: UInt32, bytes: RawSpan, replyRight: SendChannel?, before deadline: MonotonicInstant
    ) throws(PortError) {
        let header = WireHeader(count: 1, replySize: replyRight?.wireSize ?? 0)
        let size = try check(size: header.componentsOffset + bytes.byteCount)
        // Without a lock. A sender needs it to wait, for credit, or to learn why it cannot send.
        if byteLimit == 0,
            let outcome = localQueue?.send(id: id, bytes: bytes, replyRight: replyRight, size: size),
            noteOutcome(outcome)
        {
            return
        }
        guard let localQueue else { return }
        let message = LocalMessage(id: id, bytes: bytes, replyRight: replyRight, size: size, from: localQueue.pool)
        var outgoing = OutgoingMessage.local(message)
        try send(&outgoing, before: deadline)
    }

    /// - Returns: The size of a message that the port takes.
    @discardableResult
    func check(size: Int) throws(PortError) -> UInt32 {
        let limit = min(messageLimit, Wire.largestMessage)
        guard size <= limit else { throw .messageTooLarge(port: id, size: size, limit: limit) }
        return UInt32(truncatingIfNeeded: size)
    }

    /// As the form that blocks, suspending the task.
    nonisolated(nonsending) func send(
        _ message: consuming OutgoingMessage, before deadline: MonotonicInstant
    ) async throws {
        if try sendAtOnce(&message, before: deadline) { return }
        let deferred = try DeferredSend(message, to: self, before: deadline)
        try await deferred.send()
    }

    /// With so many waiters, a posted message is refused.
    private static let mostWaiting = 100

    /// Sends the message now, or later when there is room and a connection. Returns at once.
    ///
    /// - Parameter failed: Called on the housekeeping thread when the message was not sent before the deadline.
    func post(
        _ message: consuming OutgoingMessage, before deadline: MonotonicInstant,
        failed: @escaping @Sendable (any Error) -> Void
    ) throws(PortError) {
        if try sendAtOnce(&message, before: deadline, isLast: true) { return }
        guard waiterCount < Self.mostWaiting else { throw .sendTimedOut(port: id) }
        let deferred = try DeferredSend(message, to: self, before: deadline)
        // The exit waits only for messages to other processes.
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

    /// - Parameter isLast: Whether the waiters go first: an earlier message of the same thread may be one of them.
    /// - Returns: False when the message has to wait.
    private func sendAtOnce(
        _ message: inout OutgoingMessage, before deadline: MonotonicInstant, isLast: Bool = false
    ) throws(PortError) -> Bool {
        try Fork.check()
        switch message {
        case .local(let message): if pushAtOnce(message) { return true }
        case .frame: break
        }
        return try state.withLock { (state) throws(PortError) in
            try state.queue.check(.isInvalid(port: id))
            if state.queue.mayTry(isLast: isLast), try trySend(&message, &state) { return true }
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

    private func send(
        _ message: inout OutgoingMessage, as waiter: ThreadWaiter, before deadline: MonotonicInstant
    ) throws(PortError) {
        let connectDeadline = Self.connectDeadline(deadline)
        while true {
            switch try nextStep(&message, waiter) {
            case .done:
                return
            case .waitForTurn(let isConnected):
                guard waiter.wait(for: nil, until: isConnected ? deadline : connectDeadline) else {
                    throw isConnected ? noAnswer(.sendTimedOut(port: id)) : notAccepted
                }
            case .connect:
                try connect(before: connectDeadline)
            case .watch(let descriptor, isConnected: true):
                guard waiter.wait(for: descriptor, until: deadline) else { throw noAnswer(.sendTimedOut(port: id)) }
            case .watch(let descriptor, isConnected: false):
                if waiter.wait(for: descriptor, until: min(connectDeadline, .now + Self.acceptPatience)) { continue }
                guard !connectDeadline.hasPassed else { throw notAccepted }
                dropUnaccepted()
            }
        }
    }

    /// The error for a wait in vain. The owner may be dead.
    func noAnswer(_ error: PortError) -> PortError {
        if !isLocal {
            context.control.noteSilence(of: id.incarnation)
            dropLostConnection()
        }
        return error
    }

    func nextStep(_ message: inout OutgoingMessage, _ waiter: some Waiter) throws(PortError) -> NextStep {
        try Fork.check()
        return try state.withLock { (state) throws(PortError) -> NextStep in
            try state.queue.check(.becameInvalid(port: id))
            let isConnected = state.queue.isConnected
            guard state.queue.isFirst(waiter) else { return .waitForTurn(isConnected: isConnected) }
            localQueue?.askForRoom()
            if try trySend(&message, &state) { return .done }
            // The port wakes the waiter, and the socket's descriptor does not.
            if isLocal || state.queue.credit.isLacking { return .waitForTurn(isConnected: isConnected) }
            guard let descriptor = try state.socket?.watchedDescriptor() else { return .connect }
            return .watch(descriptor, isConnected: isConnected)
        }
    }

    /// Sends if there is a socket, credit and room.
    private func trySend(_ message: inout OutgoingMessage, _ state: inout ChannelState) throws(PortError) -> Bool {
        switch consume message {
        case .local(let local):
            message = .local(local)
            return try push(local, &state)
        case .frame(var frame):
            let result: Result<Bool, PortError>
            do throws(PortError) { result = .success(try trySend(&frame, &state)) } catch { result = .failure(error) }
            message = .frame(frame)
            return try result.get()
        }
    }

    private func trySend(_ frame: inout Frame, _ state: inout ChannelState) throws(PortError) -> Bool {
        let size = byteLimit > 0 ? frame.count : 0
        guard state.queue.takeCredit(size) else { return false }
        if byteLimit > 0 { Wire.setOrigin(state.queue.origin, of: &frame) }
        guard try state.socket?.sendNow(&frame) == true else {
            state.queue.noteFull()
            return false
        }
        state.queue.noteSent(size)
        return true
    }

    // MARK: Inside the runtime

    /// Sends without a lock.
    ///
    /// - Returns: False when the sender needs the lock: to connect, to wait, for credit, or to learn why it cannot send.
    private func pushAtOnce(_ message: LocalMessage) -> Bool {
        guard let localQueue, byteLimit == 0, !localQueue.isHeld else { return false }
        return noteOutcome(localQueue.push(message))
    }

    /// - Returns: Whether the message was sent.
    private func noteOutcome(_ outcome: LocalQueue.Outcome) -> Bool {
        switch outcome {
        case .queued: return true
        case .opened:
            state.withLock { ring(&$0) }
            return true
        case .full:
            return false
        case .refused:
            // The message was counted for a moment, and another sender may have found the queue full.
            roomWasMade()
            return false
        }
    }

    private func push(_ message: LocalMessage, _ state: inout ChannelState) throws(PortError) -> Bool {
        guard let localQueue else { return false }
        if state.socket == nil {
            state.socket = try context.sockets.makeBell("inproc://\(id.number)")
            state.queue.connect()
            localQueue.open()
        }
        let size = byteLimit > 0 ? message.size : 0
        guard state.queue.takeCredit(size) else { return false }
        switch localQueue.push(message) {
        case .queued: break
        case .opened: ring(&state)
        case .full, .refused:
            state.queue.noteFull()
            return false
        }
        state.queue.noteSent(size)
        return true
    }

    /// Wakes the takers of a port of this runtime.
    private func ring(_ state: inout ChannelState) {
        guard var bell = try? Wire.bell(context.mark) else { return }
        // The socket has no high-water mark. It fails only when the runtime is ending.
        _ = try? state.socket?.send(&bell)
    }

    /// The port has taken messages, and senders wait for room.
    func roomWasMade() { state.withLock { $0.queue.waiters.first }?.wake() }

    // MARK: Waiters

    func join(_ waiter: some Waiter) {
        state.withLock { state in
            state.queue.add(waiter)
            localQueue?.hold(true)
        }
    }

    func leave(_ waiter: some Waiter) {
        let next = state.withLock { state in
            let next = state.queue.remove(waiter)
            localQueue?.hold(!state.queue.waiters.isEmpty)
            return next
        }
        next?.wake()
    }

    func returnCredit(_ bytes: Int) { state.withLock { $0.queue.returnCredit(bytes) }?.wake() }

    func controlConnectionChanged() { state.withLock { $0.queue.controlConnectionChanged() }?.wake() }

    // MARK: Replies

    /// Tells the asker, to whom the channel leads, that its request gets no reply.
    func refuse(_ request: UInt64) {
        if isLocal {
            context.control.events?.requestUnanswered(request, by: context.incarnation)
        } else {
            context.control.send(.unanswered(request), to: id.incarnation)
        }
    }
}

extension SendChannel: MessageRight {}

extension MessageRight {
    var channel: SendChannel { unsafeDowncast(self, to: SendChannel.self) }
}
