import CRunLoopShims
import Glibc
import RunLoops
import ZeroMQ

/// This process's way to one port: one socket, shared by all rights to the port and all threads that use them.
final class SendChannel: Sendable, CustomStringConvertible {
    let id: PortID
    let queueLimit: Int32
    let messageLimit: Int
    /// How many bytes may be on their way, those of a single message aside; 0: any number.
    let byteLimit: Int
    /// The registry directory in which the owner can be found; empty for a port of this process.
    let path: String
    let isLocal: Bool
    /// What stands in its frames: this process's mark, where they do not leave it.
    let mark: UInt32

    private struct State: ~Copyable {
        var socket: Socket?
        /// How many messages the socket has taken.
        var sentCount = 0
        /// How many it was when the socket was made: more are sent by this socket and no other.
        var sentBefore = 0
        /// What the owner calls this process; known when there is a socket to another process.
        var origin: UInt32 = 0
        /// Whether the socket is known to have a connection: it has sent something.
        var hasSent: Bool { sentCount > sentBefore }
        /// The port was asked whether it has taken so many, by a number that only this question has.
        var drainQuestion: (number: UInt64, sentCount: Int)?
        /// How many bytes were sent that the port has not said it has taken; counted only where there is a limit.
        var bytesOnTheirWay = 0
        /// Whether it is the bytes that there is no room for. The socket knows nothing of that.
        var hasTooManyBytes = false
        /// Whether the last attempt has found no room. Then only the first of those who wait touches the socket.
        var isFull = false
        /// Those who wait for room, in the order they came. The first watches the socket while there is none; when it
        /// has found some, it wakes the next, and meanwhile whoever comes may send.
        var waiters: [any Waiter] = []
        var invalidity: Invalidity?
        var handlers: [@Sendable () -> Void] = []
        var news = News.untold
        /// Whether somebody wants to know the port's end.
        var isWatched = false
    }

    /// Of the end, to the handlers.
    private enum News {
        case untold
        /// A thread is calling them, one after the other.
        case beingTold
        case told
    }

    private enum Invalidity {
        case invalidated
        /// The process is ending.
        case closed
    }

    private let state = Lock(State())

    /// - Parameter sentCount: How many messages were sent to the port already, through another channel.
    init(_ right: WireRight, isLocal: Bool, sentCount: Int = 0) {
        id = right.id
        queueLimit = Int32(clamping: max(right.queueLimit, 1))
        messageLimit = right.limit
        byteLimit = right.byteLimit
        path = right.path
        self.isLocal = isLocal
        mark = isLocal ? PortProcess.current.mark : 0
        state.withLock { ($0.sentCount, $0.sentBefore) = (sentCount, sentCount) }
    }

    deinit { PortProcess.current.forgetChannel(id, ObjectIdentifier(self)) }

    var description: String { id.description }

    func wireRight(leaving: Bool) throws(PortError) -> WireRight {
        var path = path
        if isLocal, leaving, let port = PortProcess.current.port(id.number) { path = try port.expose() }
        return WireRight(
            id: id, queueLimit: UInt32(queueLimit), limit: messageLimit, byteLimit: byteLimit, path: path)
    }

    /// How many messages were sent there.
    var sentCount: Int { state.withLock { $0.sentCount } }

    /// How many threads wait for room, or for a connection.
    var waiterCount: Int { state.withLock { $0.waiters.count } }

    // MARK: Sending

    /// Sends the frame, or throws and leaves it to the caller.
    func send(_ frame: inout Frame, before deadline: MonotonicInstant) throws(PortError) {
        if try sendAtOnce(&frame, before: deadline) { return }
        // Not under the lock: the reference to the port may turn out to be the last one.
        if isLocal, PortProcess.current.port(id.number)?.isServedOnlyHere == true {
            throw .ownQueueFull(port: description)
        }
        let waiter = ThreadWaiter()
        join(waiter)
        defer { leave(waiter) }
        try send(&frame, as: waiter, before: deadline)
    }

    /// The same, suspending the task.
    nonisolated(nonsending) func send(_ frame: consuming Frame, before deadline: MonotonicInstant) async throws {
        if try sendAtOnce(&frame, before: deadline) { return }
        let connectDeadline = Self.connectDeadline(deadline)
        let suspended = try SuspendedSend(frame, to: self, before: deadline, connectBefore: connectDeadline)
        try await suspended.send()
    }

    /// So many may wait for room when a frame is posted; whoever made the port full gets no more.
    private static let mostWaiting = 100

    /// The same, without waiting for the outcome: while there is no room, or no connection yet, the frame waits for it;
    /// not when many wait already.
    ///
    /// - Parameter failed: Called on the housekeeping thread.
    func post(
        _ frame: consuming Frame, before deadline: MonotonicInstant,
        failed: @escaping @Sendable (any Error) -> Void
    ) throws(PortError) {
        if try sendAtOnce(&frame, before: deadline, afterAll: true) { return }
        guard waiterCount < Self.mostWaiting else { throw .sendTimedOut(port: description) }
        let suspended = try SuspendedSend(
            frame, to: self, before: deadline, connectBefore: Self.connectDeadline(deadline))
        // Within the process nothing arrives after the exit.
        let (process, count) = (PortProcess.current, isLocal ? 0 : 1)
        process.postedCount.add(count, ordering: .relaxed)
        suspended.start { end in
            process.postedCount.subtract(count, ordering: .relaxed)
            withExtendedLifetime(suspended) {}
            switch end {
            case .sent: break
            case .failed(let error): failed(error)
            }
        }
    }

    /// - Parameter afterAll: Whether those who wait are to go first, as one of them may be the same thread's.
    /// - Returns: False when the frame has to wait.
    private func sendAtOnce(
        _ frame: inout Frame, before deadline: MonotonicInstant, afterAll: Bool = false
    ) throws(PortError) -> Bool {
        try state.withLock { (state) throws(PortError) in
            try check(state, or: .isInvalid(port: description))
            let mayTry = state.waiters.isEmpty || !afterAll && !state.isFull
            if mayTry, try trySend(&frame, &state) { return true }
            if isLocal || state.hasSent, deadline.hasPassed { throw .sendTimedOut(port: description) }
            return false
        }
    }

    /// A right's first use has to find its way first, whatever the deadline: a second is ages for a live owner.
    private static func connectDeadline(_ deadline: MonotonicInstant) -> MonotonicInstant {
        max(deadline, .now + .seconds(1))
    }

    /// A connection that was not accepted is never tried again by libzmq, and never reported.
    static let connectPatience = Duration.milliseconds(100)

    /// What the one that waits has to do next.
    enum Step {
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
                    throw isConnected ? .sendTimedOut(port: description) : isNotAccepted
                }
            case .connect:
                try connect(before: connectDeadline)
            case .watch(let descriptor, isConnected: true):
                guard waiter.wait(for: descriptor, until: deadline) else { throw .sendTimedOut(port: description) }
            case .watch(let descriptor, isConnected: false):
                if waiter.wait(for: descriptor, until: min(connectDeadline, .now + Self.connectPatience)) { continue }
                guard !connectDeadline.hasPassed else { throw isNotAccepted }
                dropUnaccepted()
            }
        }
    }

    func nextStep(_ frame: inout Frame, _ waiter: some Waiter) throws(PortError) -> Step {
        try state.withLock { (state) throws(PortError) -> Step in
            try check(state, or: .becameInvalid(port: description))
            let isConnected = isLocal || state.hasSent
            guard state.waiters.first === waiter else { return .waitForTurn(isConnected: isConnected) }
            if try trySend(&frame, &state) { return .done }
            // The port's word that it has taken some ends this wait, too.
            if state.hasTooManyBytes { return .waitForTurn(isConnected: isConnected) }
            guard let descriptor = try state.socket?.watchedDescriptor() else { return .connect }
            return .watch(descriptor, isConnected: isConnected)
        }
    }

    /// Sends if there is a socket and room.
    private func trySend(_ frame: inout Frame, _ state: inout State) throws(PortError) -> Bool {
        if isLocal, state.socket == nil { state.socket = try madeSocket("inproc://\(id.number)") }
        let size = byteLimit > 0 ? frame.count : 0
        state.hasTooManyBytes = state.bytesOnTheirWay + size > byteLimit && state.bytesOnTheirWay > 0
        state.isFull = state.hasTooManyBytes
        if byteLimit > 0, !isLocal { Wire.setOrigin(state.origin, of: &frame) }
        if !state.isFull { state.isFull = try state.socket?.sendNow(&frame) != true }
        guard !state.isFull else { return false }
        state.sentCount += 1
        state.bytesOnTheirWay += size
        return true
    }

    /// The port has taken so many bytes of what was sent.
    func taken(bytes: Int) {
        let first = state.withLock { state in
            state.bytesOnTheirWay = max(0, state.bytesOnTheirWay - bytes)
            return state.hasTooManyBytes ? state.waiters.first : nil
        }
        first?.wake()
    }

    /// The control connection to the port's process was cut. What the port has said of this channel may be lost with it:
    /// without this, its sender would wait for that for ever. For a moment the port may hold twice its limit in bytes.
    func controlConnectionEnded() {
        let first = state.withLock { state in
            state.bytesOnTheirWay = 0
            state.drainQuestion = nil
            return state.hasTooManyBytes ? state.waiters.first : nil
        }
        first?.wake()
    }

    func join(_ waiter: some Waiter) { state.withLock { $0.waiters.append(waiter) } }

    func leave(_ waiter: some Waiter) {
        let next = state.withLock { state in
            guard let index = state.waiters.firstIndex(where: { $0 === waiter }) else { return nil as (any Waiter)? }
            state.waiters.remove(at: index)
            return index == 0 ? state.waiters.first : nil
        }
        next?.wake()
    }

    private func check(_ state: borrowing State, or error: @autoclosure () -> PortError) throws(PortError) {
        try PortProcess.checkUsable()
        switch state.invalidity {
        case nil: return
        case .invalidated?: throw error()
        case .closed?: throw .unavailable(reason: "the process is ending")
        }
    }

    // MARK: Connecting

    private var socketPath: String { "\(path)/\(id.incarnation)/\(id.number)" }

    /// The path of the socket that something was sent to in another process.
    var usedPath: String? { !isLocal && state.withLock { $0.hasSent && $0.socket != nil } ? socketPath : nil }

    /// Whether something was sent to where the port is.
    var isConnected: Bool { isLocal || state.withLock { $0.hasSent } }

    var isNotAccepted: PortError { .cannotConnect(port: description, reason: "its owner accepts no connection") }

    /// For a new attempt.
    func dropUnaccepted() { state.withLock { if !$0.hasSent { $0.socket = nil } } }

    func connect(before deadline: MonotonicInstant) throws(PortError) {
        if let owner = try joinPeer(before: deadline) { try makeSocket(to: owner) }
    }

    /// Connects if that takes no waiting.
    ///
    /// - Parameter former: The call that the last attempt has returned.
    /// - Returns: The call whose outcome is to be waited for; nil when the channel is connected.
    func connect(after former: ControlCall?) throws(PortError) -> ControlCall? {
        noteWatched()
        do throws(PortError) {
            switch try PortProcess.current.peers.way(to: self, after: former) {
            case .call(let call): return call
            case .peer(let peer):
                peer.send(.watch(id.number))
                try makeSocket(to: peer)
                return nil
            }
        } catch {
            if case .isInvalid = error { invalidate() }
            throw error
        }
    }

    private func makeSocket(to owner: Peer) throws(PortError) {
        // An optional, because a closure cannot consume what it captures.
        var made: Socket?
        do throws(PortError) {
            made = try madeSocket("ipc://" + socketPath)
        } catch {
            PortProcess.current.connections.makeRoom()
            throw error
        }
        state.withLock { state in
            guard state.socket == nil, state.invalidity == nil else { return }
            swap(&state.socket, &made)
            state.sentBefore = state.sentCount
            state.origin = owner.ownOrigin
        }
        PortProcess.current.connections.opened(self)
    }

    /// Makes sure that the death of the port, and of its owner, will be told.
    ///
    /// - Returns: The owner; nil when it is this process.
    @discardableResult
    func joinPeer(before deadline: MonotonicInstant) throws(PortError) -> Peer? {
        guard !isLocal else { return nil }
        noteWatched()
        do {
            let peer = try PortProcess.current.peers.peer(of: self, before: deadline)
            peer.send(.watch(id.number))
            return peer
        } catch {
            if case .isInvalid = error { invalidate() }
            throw error
        }
    }

    /// The same, suspending the task.
    @discardableResult
    nonisolated(nonsending) func joinPeer(before deadline: MonotonicInstant) async throws -> Peer? {
        guard !isLocal else { return nil }
        noteWatched()
        do {
            let peer = try await PortProcess.current.peers.peer(of: self, before: deadline)
            peer.send(.watch(id.number))
            return peer
        } catch {
            if case PortError.isInvalid = error { invalidate() }
            throw error
        }
    }

    /// Where its owner is to be found.
    var controlAddress: ControlAddress { ControlAddress(incarnation: id.incarnation, directory: path) }

    /// Whether somebody wants to know the port's end: each new connection to the owner asks for it.
    var isWatched: Bool { state.withLock { $0.isWatched } }

    private func noteWatched() { state.withLock { $0.isWatched = true } }

    private func madeSocket(_ address: String) throws(PortError) -> Socket {
        try PortProcess.current.checkReserve()
        let context = try PortProcess.current.context()
        return try zeroMQ { () throws(ZeroMQError) in
            let socket = try Socket(.push, in: context)
            // Inside one process the two marks are added up to one queue.
            try socket.set(.sendHighWaterMark(isLocal ? 1 : queueLimit))
            try socket.set(.linger(isLocal ? 0 : -1))
            if !isLocal {
                // Never to a stranger who takes the path after the owner's death, and nothing queued for nobody.
                try socket.set(.reconnectInterval(-1))
                try socket.set(.immediate(true))
            }
            try socket.connect(address)
            return socket
        }
    }

    // MARK: An unused connection

    var hasSocket: Bool { state.withLock { $0.socket != nil } }

    /// The port will say when it has taken all that was sent, and if nothing has followed by then, the connection is
    /// closed. Otherwise messages could be lost with it, or overtaken by those of the next one. One that nothing was sent
    /// through, because the owner did not accept it, is closed at once.
    func askWhetherDrained() {
        let isClosed = state.withLock { state in
            guard state.waiters.isEmpty else { return false }
            guard state.hasSent else {
                state.socket = nil
                return true
            }
            guard state.drainQuestion?.sentCount != state.sentCount else { return false }
            let number = UInt64.random(in: 0 ... .max)
            // Without room now, another time.
            guard var frame = try? Encoding.drainQuestion(number, from: state.origin),
                (try? state.socket?.sendNow(&frame)) == true
            else { return false }
            state.drainQuestion = (number, state.sentCount)
            return false
        }
        if isClosed { PortProcess.current.connections.closed(self) }
    }

    /// The port has taken all that came before the question.
    func drained(_ number: UInt64) {
        let isClosed = state.withLock { state in
            guard let question = state.drainQuestion, question == (number, state.sentCount), state.waiters.isEmpty
            else {
                return false
            }
            state.drainQuestion = nil
            state.socket = nil
            state.sentBefore = state.sentCount
            return true
        }
        if isClosed { PortProcess.current.connections.closed(self) }
    }

    // MARK: Invalidity

    var isValid: Bool { !crl_is_forked() && state.withLock { $0.invalidity == nil } }

    func onInvalidation(_ handler: @escaping @Sendable () -> Void) {
        guard !crl_is_forked() else { return }
        let isLate = state.withLock { state in
            if state.news != .told { state.handlers.append(handler) }
            return state.news == .told
        }
        if isLate { handler() } else { watch() }
    }

    /// Has the port's end told, now or when there is a connection to its owner. Waits for nothing.
    func watch() {
        guard !isLocal else { return }
        noteWatched()
        PortProcess.current.peers.watch(self)
    }

    /// No message goes there any more, and all who wait learn it.
    func shut() {
        let waiters = state.withLock { state in
            state.invalidity = state.invalidity ?? .invalidated
            state.socket = nil
            return state.waiters
        }
        for waiter in waiters { waiter.wake() }
    }

    /// The port is gone.
    func invalidate() {
        shut()
        PortProcess.current.replies.portBecameInvalid(id)
        PortProcess.current.sentCounts.portBecameInvalid(id)
        PortProcess.current.tellNameWatchers()
        PortProcess.current.connections.letGo(self)
        let isFirst = state.withLock { state in
            guard state.news == .untold else { return false }
            state.news = .beingTold
            return true
        }
        guard isFirst else { return }
        while let handlers = nextHandlers() { for handler in handlers { handler() } }
    }

    /// Those that were set since the last ones were called; nil when there are none.
    private func nextHandlers() -> [@Sendable () -> Void]? {
        state.withLock { state in
            if state.handlers.isEmpty { state.news = .told }
            defer { state.handlers = [] }
            return state.news == .told ? nil : state.handlers
        }
    }

    /// The process ends: what is on its way gets so many milliseconds more.
    func close(linger milliseconds: Int32) {
        // The owner could not ask any more.
        if !isLocal, sentCount > 0 { PortProcess.current.peers.tellSent(sentCount, to: id) }
        // What the handlers have captured may call back in here when it is let go of.
        let (handlers, waiters) = state.withLock { state in
            state.invalidity = .closed
            if !isLocal { try? state.socket?.set(.linger(milliseconds)) }
            state.socket = nil
            state.news = .told
            defer { state.handlers = [] }
            return (state.handlers, state.waiters)
        }
        for waiter in waiters { waiter.wake() }
        withExtendedLifetime(handlers) {}
    }
}

extension Socket {
    /// Sends without waiting, in the ports' errors.
    fileprivate func sendNow(_ frame: inout Frame) throws(PortError) -> Bool {
        do throws(ZeroMQError) {
            // A send looks at what has happened only now and then; a full queue may have long been emptied.
            if try send(&frame) { return true }
            return try events.contains(.sendable) ? send(&frame) : false
        } catch {
            throw PortError(error)
        }
    }
}
