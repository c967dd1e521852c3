import CRunLoopShims
import Dispatch
import Glibc
import RunLoops
import Synchronization
import ZeroMQ

/// A port: messages sent to it, from any thread of any process of the same user, are handled where it is scheduled.
/// The corresponding class is NSMachPort. No Mach kernel is involved: a port is a ZeroMQ socket.
///
///     let port = try MachPort { message in print("got", message.id) }
///     try port.schedule(in: .current)
///     try port.sendRight.send(MachPort.Message(id: 100))
///
/// The port itself is the right to receive. ``sendRight`` is the right to send; it can be copied and sent on. A loop
/// that the port is scheduled in keeps it; when nobody keeps it any more, it becomes invalid.
public final class MachPort: Sendable, CustomStringConvertible {
    /// Called with each message, on the thread of a loop that the port is scheduled in, or on its queue.
    public typealias Handler = @Sendable (Message) -> Void

    typealias FrameHandler = @Sendable (ReceivedFrame) -> Void

    let id: PortID
    /// How many messages of one sender wait at the port before that sender has to.
    public let queueLimit: Int
    /// How many bytes of one sender's messages wait at the port before that sender has to; nil for any number.
    public let byteLimit: Int?
    /// The largest message that it takes, in bytes, components and a few dozen bytes of frame together.
    public let messageLimit: Int
    /// The right to send to the port.
    public let sendRight: SendRight

    private let directoryPath: String

    /// A function that is itself a generic type's value is wrapped anew at each access; a field is not.
    struct Handlers: Sendable {
        var frame: FrameHandler?
        weak var delegate: (any Delegate)?
    }

    private struct Receiver: ~Copyable {
        var socket: Socket?
        var handlers: Handlers
        weak var source: ThreadRunLoop.Source1?
        /// Whether a message may be waiting that the socket's descriptor does not tell of any more.
        var mayHaveMore = false
        /// The threads that are taking messages, or handling one they took.
        var turns: [Int32] = []
        var waiters: [any Waiter] = []
        /// The dispatch queue that handles messages; one of the waiters.
        var queue: QueueService?
        var isValid = true
        /// How the invalidation goes on when the last turn has ended.
        var afterLastTurn: (@Sendable () -> Void)?
        var invalidationHandlers: [@Sendable () -> Void] = []
        /// Whether all of them were called.
        var hasTold = false
        /// Where other processes can find it.
        var exposedIn: PortDirectory?
        var names: [(PortDirectory, String)] = []
        /// How many messages were taken.
        var takenCount = 0
        /// How many other processes were last heard to have sent. Their word: it adds up to anything, so that sums with
        /// it may overflow.
        var sentCounts: [Incarnation: Int] = [:]
        /// How many more were sent, as far as is known, than will ever be taken. Below zero: sent by processes that
        /// could not be asked any more.
        var lostCount = 0
        /// Since when nothing has come although something seems to be on its way.
        var missing: (count: Int, takenCount: Int, since: MonotonicInstant)?
        /// What those of other processes have sent and do not know to be taken; only where bytes are limited.
        var untoldBytes: [UInt32: Int] = [:]
        /// The rest of a multipart message, which no sender of ours makes, is passed over.
        var isSkipping = false
        var malformed = 0

        /// Whether another thread has a turn, that has not ended since: by `pthread_exit` in a handler.
        mutating func isOthersTurn() -> Bool {
            turns.removeAll { crl_thread_has_ended($0) }
            return turns.contains { $0 != crl_thread_id() }
        }

        /// What a connection takes to bring what was sent; what has not come after that was lost with its sender.
        private static let transit = Duration.seconds(1)

        /// Nothing is left to take, and so many seem to be on their way.
        mutating func noteMissing(_ count: Int) {
            let former = missing
            missing = nil
            if count < 0 { return lostCount &+= count }
            guard count > 0 else { return }
            guard let former, former.count == count, former.takenCount == takenCount else {
                return missing = (count, takenCount, .now)
            }
            if former.since.duration(to: .now) > Self.transit { lostCount &+= count } else { missing = former }
        }
    }

    private let receiver: Lock<Receiver>
    /// Held while a loop takes the port in: until then the socket stays. No turn, because the loop may be as fast as to
    /// be in the handler already, which may invalidate the port and needs not wait for more than this.
    private let scheduling = Mutex(())

    /// Makes a port. Each limit is 1 or more.
    ///
    /// - Parameters:
    ///   - queueLimit: How many messages of one sender wait at the port before that sender has to. All threads of a
    ///     process together are one sender. As many again may wait in a sender's process, if it is another than the
    ///     port's, and up to 256 KiB between the two. So a port that nobody reads holds at most the limit, times the
    ///     processes that send to it, times the size of a message. (One of less than 8 KiB from another process may cost
    ///     19 KiB where it waits, when it came alone: libzmq keeps it in the buffer that it was read into.)
    ///   - byteLimit: How many bytes of one sender's messages wait in all these places together before that sender has
    ///     to; nil for any number. It makes each message a little slower.
    ///   - messageLimit: The largest message that it takes, in bytes; never more than the `byteLimit`.
    ///   - nameServer: Where the port's socket lives, should the port become known outside this process.
    ///   - handler: Called with each message on the loops that the port is scheduled in, and on its queue. Without one,
    ///     messages wait for `receive(before:)`.
    /// - Throws: ``PortError`` when a limit is less than 1, there is no descriptor or no thread left, or the process is a
    ///   fork.
    public convenience init(
        queueLimit: Int = 1000, byteLimit: Int? = nil, messageLimit: Int = 64 << 20,
        nameServer: PortNameServer = .shared, handler: Handler? = nil
    ) throws(PortError) {
        try self.init(
            queueLimit: queueLimit, byteLimit: byteLimit, messageLimit: messageLimit, nameServer: nameServer,
            handlers: Handlers(frame: handler.map(Self.frameHandler)))
    }

    init(
        queueLimit: Int = 1000, byteLimit: Int? = nil, messageLimit: Int = 64 << 20,
        nameServer: PortNameServer = .shared, handlers: Handlers
    ) throws(PortError) {
        try Self.check(queueLimit, "queueLimit")
        try Self.check(byteLimit ?? 1, "byteLimit")
        try Self.check(messageLimit, "messageLimit")
        let process = PortProcess.current
        try process.checkReserve()
        let context = try process.context()
        let id = PortID(incarnation: process.incarnation, number: process.nextNumber())
        let queueLimit = min(queueLimit, Int(Int32.max) - 1)
        let messageLimit = min(messageLimit, byteLimit ?? .max, Wire.largestMessage)
        let socket = try zeroMQ { () throws(ZeroMQError) in
            let socket = try Socket(.pull, in: context)
            try socket.set(.receiveHighWaterMark(Int32(queueLimit)))
            // It counts for what a peer says first, too: with less, no other process could connect.
            try socket.set(.maxMessageSize(Int64(max(messageLimit, 64))))
            try socket.set(.ipcPeerUser(geteuid()))
            // Only a peer that speaks ZMTP 3 has the kernel's word on who it is in its messages.
            try socket.set(.authenticationDomain("ports"))
            try socket.set(.linger(0))
            try socket.bind("inproc://\(id.number)")
            return socket
        }
        self.id = id
        self.queueLimit = queueLimit
        self.byteLimit = byteLimit
        self.messageLimit = messageLimit
        directoryPath = nameServer.path
        receiver = Lock(Receiver(socket: socket, handlers: handlers))
        let channel = SendChannel(
            Self.wireRight(id, queueLimit: queueLimit, byteLimit: byteLimit, messageLimit: messageLimit, path: ""),
            isLocal: true)
        sendRight = SendRight(channel)
        process.add(self, channel)
    }

    deinit { invalidate() }

    private static func check(_ limit: Int, _ name: String) throws(PortError) {
        if limit < 1 { throw .invalidLimit(name: name, value: limit) }
    }

    /// The right to send to it as it travels.
    func wireRight(path: String) -> WireRight {
        Self.wireRight(id, queueLimit: queueLimit, byteLimit: byteLimit, messageLimit: messageLimit, path: path)
    }

    private static func wireRight(
        _ id: PortID, queueLimit: Int, byteLimit: Int?, messageLimit: Int, path: String
    ) -> WireRight {
        WireRight(
            id: id, queueLimit: UInt32(queueLimit), limit: messageLimit, byteLimit: byteLimit ?? 0, path: path)
    }

    /// The port's number and its process.
    public var description: String { id.description }

    private static func frameHandler(_ handler: @escaping Handler) -> FrameHandler {
        { frame in
            // Requests and replies belong to message ports.
            if frame.header.kind == .message { handler(Message(frame)) } else { frame.refuse() }
        }
    }

    private func frameHandler(_ delegate: any Delegate) -> FrameHandler {
        Self.frameHandler { message in delegate.handle(message, of: self) }
    }

    /// Sets what is called with each message, in place of a delegate too; nil: messages wait. Counts from the next
    /// message on. The corresponding method is NSPort's `setDelegate:`.
    public func setHandler(_ handler: Handler?) { setHandlers(Handlers(frame: handler.map(Self.frameHandler))) }

    /// What handles each message, in place of a handler. The port does not keep it; without it, messages wait.
    /// Any thread may set it; it counts from the next message on. The corresponding property is NSPort's `delegate`.
    public var delegate: (any Delegate)? {
        get { crl_is_forked() ? nil : receiver.withLock { $0.handlers.delegate } }
        set {
            // There may be a handler, which is not concerned.
            if newValue != nil || delegate != nil { setHandlers(Handlers(delegate: newValue)) }
        }
    }

    func setHandlers(_ handlers: Handlers) {
        guard !crl_is_forked() else { return }
        var made = handlers
        let source = receiver.withLock { receiver in
            // The old one goes after the lock: what it has captured may call back in here when it is let go of.
            if receiver.isValid { swap(&receiver.handlers, &made) }
            return receiver.source
        }
        // What has come meanwhile is told by no descriptor.
        source?.raise()
        wakeWaiters()
    }

    // MARK: On a queue

    /// Has a dispatch queue handle the port's messages, one at a time, in place of the queue before; nil: none does.
    /// Any thread may call it. Loops that the port is scheduled in take their share.
    ///
    /// The queue keeps the port until the port is invalid or has another queue or none. What the former queue is
    /// handling at the moment goes on.
    /// - Throws: ``PortError`` when the port is invalid.
    public func setQueue(_ queue: DispatchQueue?) throws(PortError) {
        try PortProcess.checkUsable()
        let service = queue.map { QueueService(self, $0) }
        let former = try receiver.withLock { (receiver) throws(PortError) in
            guard receiver.isValid else { throw .isInvalid(port: description) }
            let former = receiver.queue
            receiver.queue = service
            receiver.waiters.removeAll { $0 === former }
            if let service { receiver.waiters.append(service) }
            return former
        }
        former?.stop()
        // What has arrived before is told by no descriptor.
        service?.wake()
    }

    /// The queue's turn for the port.
    ///
    /// - Returns: Whether there may be more.
    func serve(_ service: QueueService) -> Bool {
        guard (try? beginTurn()) != nil else { return false }
        defer { endTurn() }
        for _ in 0..<Self.queueBatch {
            guard !service.isStopped else { return false }
            guard let delivery = take(waiter: service) else {
                // The socket stays until it is watched.
                if let descriptor = receiver.withLock({ try? $0.socket?.watchedDescriptor() }) {
                    service.watch(descriptor)
                }
                return false
            }
            if delivery.isFirst { tellOthers() }
            crl_callout_depth().pointee += 1
            delivery.handler?(delivery.frame)
            crl_callout_depth().pointee -= 1
        }
        return true
    }

    /// So many messages are handled before others get their turn on the queue.
    private static let queueBatch = 64

    // MARK: On loops

    /// Has a loop handle the port's messages in a mode. It may be scheduled in several loops and modes; each message is
    /// handled once. Any thread may call it.
    /// The corresponding method is NSPort's `scheduleInRunLoop:forMode:`.
    ///
    /// - Throws: ``PortError`` when the port is invalid, no descriptor is left, or the loop's thread has ended.
    public func schedule(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) throws(PortError) {
        // What has arrived before is told by no descriptor.
        try add(to: loop, forMode: mode).raise()
    }

    private func add(
        to loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode
    ) throws(PortError) -> ThreadRunLoop.Source1 {
        try PortProcess.checkUsable()
        return try scheduling.withLock { _ throws(PortError) in
            let source = try madeSource()
            try runLoop { () throws(RunLoopError) in try loop.add(source, forMode: mode) }
            return source
        }
    }

    private func madeSource() throws(PortError) -> ThreadRunLoop.Source1 {
        try receiver.withLock { (receiver) throws(PortError) in
            guard receiver.isValid, let descriptor = try receiver.socket?.watchedDescriptor() else {
                throw .isInvalid(port: description)
            }
            if let source = receiver.source { return source }
            // The socket's owner takes it out before closing it; no duplicate is needed.
            let source = ThreadRunLoop.Source1(descriptor: descriptor, label: description, duplicates: false) { turn in
                self.serve(&turn)
            }
            receiver.source = source
            return source
        }
    }

    /// Takes the port out of a loop's mode. Any thread may call it.
    /// The corresponding method is NSPort's `removeFromRunLoop:forMode:`.
    public func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) {
        // A forked child's wait sets are its parent's too.
        guard !crl_is_forked() else { return }
        if let source = receiver.withLock({ $0.source }) { loop.remove(source, forMode: mode) }
    }

    /// Whether a loop handles the port's messages in a mode.
    public func isScheduled(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) -> Bool {
        guard !crl_is_forked() else { return false }
        return receiver.withLock { $0.source }.map { loop.contains($0, forMode: mode) } ?? false
    }

    /// A loop's turn for the port.
    private func serve(_ turn: inout ThreadRunLoop.Turn) -> Bool {
        guard (try? beginTurn()) != nil else {
            turn.source.clear()
            return false
        }
        defer { endTurn() }
        var handled = false
        while turn.next() {
            guard let delivery = take(source: turn.source) else { break }
            if delivery.isFirst {
                turn.source.raise(during: turn)
                wakeWaiters()
            }
            crl_callout_depth().pointee += 1
            delivery.handler?(delivery.frame)
            crl_callout_depth().pointee -= 1
            handled = true
        }
        return handled
    }

    /// Whether only the calling thread's loop, or the queue it works for, takes messages: then waiting for room here
    /// would be for ever.
    var isServedOnlyHere: Bool {
        let (source, queue, hasOthers, isHandling) = receiver.withLock { receiver in
            (
                receiver.source, receiver.queue, receiver.waiters.contains { $0 !== receiver.queue },
                receiver.turns.contains(crl_thread_id())
            )
        }
        if hasOthers { return false }
        return queue == nil ? source?.isOnlyInCurrentLoop ?? false : isHandling && source?.isInNoLoop != false
    }

    // MARK: Taking messages

    /// Waits for the next message and takes it. Any thread may call it; loops and other waiting threads take their
    /// share.
    ///
    /// - Parameter deadline: How long to wait. A deadline in the past takes only what is there.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`.
    @available(*, noasync, message: "it blocks its thread")
    public func receive(before deadline: MonotonicInstant = .distantFuture) throws(PortError) -> Message {
        try beginTurn()
        defer { endTurn() }
        if let message = takeMessage() { return message }
        let waiter = ThreadWaiter()
        add(waiter)
        defer { remove(waiter) }
        while true {
            // Once more as one who waits: what came in between would not be told.
            if let message = takeMessage() { return message }
            let descriptor = try receiver.withLock { (receiver) throws(PortError) in
                guard receiver.isValid else { throw .becameInvalid(port: description) }
                return try receiver.socket?.watchedDescriptor()
            }
            // Something may come all the time that is no message.
            guard !deadline.hasPassed, waiter.wait(for: descriptor, until: deadline) else {
                throw .receiveTimedOut(port: description)
            }
        }
    }

    /// Who waits is told when there may be something for it.
    func add(_ waiter: some Waiter) { receiver.withLock { $0.waiters.append(waiter) } }

    func remove(_ waiter: some Waiter) { receiver.withLock { $0.waiters.removeAll { $0 === waiter } } }

    /// Takes what is there.
    func takeNow() throws(PortError) -> Message? {
        try beginTurn()
        defer { endTurn() }
        return takeMessage()
    }

    /// Takes what is there; else the waiter will be told of the next message.
    ///
    /// - Parameter isWatched: Whether it will: not when no descriptor is left.
    func takeNow(orWatchWith waiter: TaskWaiter, _ isWatched: inout Bool) throws(PortError) -> Message? {
        // The socket has to stay until it is watched.
        do { try beginTurn() } catch {
            throw error == .isInvalid(port: description) ? .becameInvalid(port: description) : error
        }
        defer { endTurn() }
        if let message = takeMessage() { return message }
        let descriptor = try receiver.withLock { (receiver) throws(PortError) in
            try receiver.socket?.watchedDescriptor()
        }
        if let descriptor { isWatched = (try? waiter.watch(descriptor)) != nil }
        return nil
    }

    private func takeMessage() -> Message? {
        while let delivery = take(needsHandler: false) {
            if delivery.isFirst { tellOthers() }
            let frame = delivery.frame
            if frame.header.kind == .message { return Message(frame) }
            frame.refuse()
        }
        return nil
    }

    private enum Taken: ~Copyable {
        case frame(Frame, FrameHandler?, isFirst: Bool)
        /// One of several that make a message, as no sender of ours makes them.
        case part(Frame)
        case nothing
    }

    /// A good frame, and who is to have it. (A function in a tuple would be wrapped anew for each message.)
    private struct Delivery {
        let frame: ReceivedFrame
        let handler: FrameHandler?
        /// Whether those who could take others have to be told, before this one is handled.
        let isFirst: Bool
    }

    /// So many malformed frames are thrown away before others get their turn.
    private static let mostDropped = 1000

    /// Takes the next good frame.
    ///
    /// - Parameters:
    ///   - needsHandler: Whether it is a handler that will have it.
    ///   - source: The source whose turn it is, which saves following the weak reference to it.
    ///   - waiter: The one whose turn it is, which need not be told.
    private func take(
        needsHandler: Bool = true, source: ThreadRunLoop.Source1? = nil, waiter: (any Waiter)? = nil
    ) -> Delivery? {
        var isFirst = false
        for _ in 0..<Self.mostDropped {
            switch takeFrame(needsHandler, source, waiter) {
            case .nothing:
                if byteLimit != nil { tellTakenBytes() }
                return nil
            case .part(let frame):
                noteMalformed(.severalFrames, in: ReceivedFrame(frame))
            case .frame(let frame, let handler, let isFirstNow):
                isFirst = isFirst || isFirstNow
                let size = byteLimit == nil ? 0 : frame.count
                let frame = ReceivedFrame(frame)
                guard frame.header.kind != .drainQuestion else {
                    PortProcess.current.peers.tellDrained(frame.header.request, of: id.number, to: frame.header.origin)
                    continue
                }
                if size > 0 { took(size, in: frame) }
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
        // Let go of after the lock: this may be the last reference to it.
        var delegate: (any Delegate)?
        // Woken after the lock: a task's executor may go on with the task at once.
        var others: [any Waiter] = []
        defer { for waiter in others where waiter !== taker { waiter.wake() } }
        return receiver.withLock { receiver in
            var frame = Frame()
            var handler = receiver.handlers.frame
            if handler == nil, needsHandler {
                delegate = receiver.handlers.delegate
                handler = delegate.map(frameHandler)
            }
            let hasTaker = receiver.isValid && (handler != nil || !needsHandler)
            guard hasTaker else {
                // Asking for the events makes the descriptor silent until the next message, for all who watch it.
                if (try? receiver.socket?.events)?.contains(.receivable) == true { others = receiver.waiters }
                receiver.source?.clear()
                return .nothing
            }
            guard (try? receiver.socket?.receive(&frame)) == true else {
                receiver.mayHaveMore = false
                if let source { source.clear() } else { receiver.source?.clear() }
                return .nothing
            }
            if receiver.isSkipping || frame.isFollowed {
                receiver.isSkipping = frame.isFollowed
                return .part(frame)
            }
            let isFirst = !receiver.mayHaveMore
            receiver.mayHaveMore = true
            // A question is no message. Nobody asks a port that no other process can connect to.
            if receiver.exposedIn == nil || !Wire.isDrainQuestion(frame) { receiver.takenCount += 1 }
            return .frame(frame, handler, isFirst: isFirst)
        }
    }

    /// The first message of several was taken here. The descriptor speaks no more until the last is taken, so all who
    /// could take the others have to be told, before this one's handler runs.
    private func tellOthers() {
        receiver.withLock { $0.source }?.raise()
        wakeWaiters()
    }

    private func wakeWaiters() {
        for waiter in receiver.withLock({ $0.waiters }) { waiter.wake() }
    }

    // MARK: Statistics

    func note(sent count: Int, by incarnation: Incarnation) {
        receiver.withLock { $0.sentCounts[incarnation] = count }
    }

    /// What the process has sent is not asked for any more: senders come and go, and the port may stay.
    func senderDied(_ incarnation: Incarnation) {
        receiver.withLock { $0.lostCount &-= $0.sentCounts.removeValue(forKey: incarnation) ?? 0 }
    }

    /// How many other processes' numbers are kept.
    var knownSenderCount: Int { receiver.withLock { $0.sentCounts.count } }

    /// With what was last heard of senders in other processes.
    var statistics: Statistics {
        let ownCount = sendRight.channel.sentCount
        let (statistics, isNews) = receiver.withLock { receiver in
            let sentCount = receiver.sentCounts.values.reduce(ownCount, &+)
            let isEmpty = (try? receiver.socket?.events)?.contains(.receivable) != true
            var waiting = sentCount &- receiver.takenCount &- receiver.lostCount
            if isEmpty {
                receiver.noteMissing(waiting)
                waiting = max(0, sentCount &- receiver.takenCount &- receiver.lostCount)
            }
            // To ask for the events made the descriptor silent.
            let isNews = !isEmpty && !receiver.mayHaveMore
            if isNews { receiver.mayHaveMore = true }
            return (Statistics(received: receiver.takenCount, waiting: isEmpty ? waiting : max(1, waiting)), isNews)
        }
        if isNews { tellOthers() }
        return statistics
    }

    // MARK: A limit in bytes

    /// A sender may send so many more. It is told of each eighth of the limit, and of the rest when nothing is left.
    private func took(_ bytes: Int, in frame: ReceivedFrame) {
        if frame.isOwn { return sendRight.channel.taken(bytes: bytes) }
        let origin = frame.header.origin
        let (due, isTooMuch) = receiver.withLock { receiver in
            let untold = receiver.untoldBytes[origin, default: 0] + bytes
            let isDue = untold >= (byteLimit ?? 0) / 8
            receiver.untoldBytes[origin] = isDue ? nil : untold
            return (isDue ? untold : 0, receiver.untoldBytes.count > Peers.most)
        }
        if due > 0 { PortProcess.current.peers.tellTaken(bytes: due, of: id.number, to: origin) }
        // Somebody makes origins up.
        if isTooMuch { tellTakenBytes() }
    }

    private func tellTakenBytes() {
        let due = receiver.withLock { receiver in
            defer { receiver.untoldBytes = [:] }
            return receiver.untoldBytes
        }
        for (origin, bytes) in due { PortProcess.current.peers.tellTaken(bytes: bytes, of: id.number, to: origin) }
    }

    private func noteMalformed(_ error: Wire.Malformed, in frame: ReceivedFrame) {
        receiver.withLock { $0.malformed += 1 }
        let (pid, text) = (frame.sender?.pid ?? 0, "\(error)")
        log.warning(about: .process(pid), once: text, "\(self): dropped a frame from process \(pid): \(text)")
    }

    /// How many malformed frames were thrown away.
    public var malformedCount: Int { crl_is_forked() ? 0 : receiver.withLock { $0.malformed } }

    // MARK: Turns

    /// While a thread has a turn, the socket stays.
    private func beginTurn() throws(PortError) {
        try PortProcess.checkUsable()
        try receiver.withLock { (receiver) throws(PortError) in
            guard receiver.isValid else { throw .isInvalid(port: description) }
            receiver.turns.append(crl_thread_id())
        }
    }

    private func endTurn() {
        let rest = receiver.withLock { receiver in
            if let index = receiver.turns.lastIndex(of: crl_thread_id()) { receiver.turns.remove(at: index) }
            guard receiver.turns.isEmpty else { return nil as (@Sendable () -> Void)? }
            defer { receiver.afterLastTurn = nil }
            return receiver.afterLastTurn
        }
        rest?()
    }

    // MARK: Validity

    /// Whether the port can receive. The corresponding property is NSPort's `valid`.
    public var isValid: Bool { !crl_is_forked() && receiver.withLock { $0.isValid } }

    /// Makes the port invalid, for good: senders learn it, requests that wait are refused, its names are free.
    /// The corresponding method is NSPort's `invalidate`.
    ///
    /// Any thread may call it, from a handler of the port's too. The invalidation handlers run on the caller, after a
    /// message that another thread is handling at the moment; no message is handled after them. (Called inside some
    /// port's handler while another thread handles a message of this one, it does not wait, lest two threads wait for
    /// each other: then that thread runs the handlers. Nor does it in a right's ``SendRight/onInvalidation(_:)``, which
    /// would hold up the library's own thread.)
    public func invalidate() {
        // The port, its name and its sockets are the parent's.
        guard !crl_is_forked() else { return }
        let wasValid = receiver.withLock { receiver in
            defer { receiver.isValid = false }
            return receiver.isValid
        }
        guard wasValid else { return }
        wakeWaiters()
        let (source, names) = receiver.withLock { ($0.source, $0.names) }
        // Before the socket goes, and its descriptor's number with it.
        source?.invalidate()
        scheduling.withLock { _ in }
        // A handler that waits for room in this very port would never end.
        sendRight.channel.shut()
        for (directory, name) in names { directory.abandon(name, of: id) }
        let isInCallout = crl_callout_depth().pointee > 0 || PortProcess.current.isHousekeeping
        let turnsEnded = Gate()
        let mustWait = receiver.withLock { receiver in
            guard receiver.isOthersTurn() else { return false }
            if isInCallout {
                receiver.afterLastTurn = { self.finish() }
            } else {
                receiver.afterLastTurn = { turnsEnded.open() }
            }
            return true
        }
        if mustWait {
            if isInCallout { return }
            // Asked again and again: a thread that ends inside its turn does not end the turn.
            while !turnsEnded.wait(until: .now + .milliseconds(50)), receiver.withLock({ $0.isOthersTurn() }) {}
        }
        finish()
    }

    private func finish() {
        refuseQueued()
        var former = Handlers()
        let (exposedIn, queue) = receiver.withLock { receiver in
            receiver.socket = nil
            swap(&receiver.handlers, &former)
            receiver.waiters.removeAll { $0 === receiver.queue }
            defer { receiver.queue = nil }
            return (receiver.exposedIn, receiver.queue)
        }
        queue?.stop()
        let process = PortProcess.current
        exposedIn?.removeSocket(of: id)
        process.remove(id)
        sendRight.channel.invalidate()
        process.peers.tellInvalidated(id.number)
        while let handlers = nextInvalidationHandlers() { for handler in handlers { handler() } }
    }

    /// Those that were set since the last ones were called; nil when there are none.
    private func nextInvalidationHandlers() -> [@Sendable () -> Void]? {
        receiver.withLock { receiver in
            receiver.hasTold = receiver.invalidationHandlers.isEmpty
            defer { receiver.invalidationHandlers = [] }
            return receiver.hasTold ? nil : receiver.invalidationHandlers
        }
    }

    /// Whoever has a request in the queue must not wait for a reply that nobody will give.
    private func refuseQueued() {
        // Remote senders may go on for a moment; so many are in no queue.
        for _ in 0..<1_000_000 {
            var frame = Frame()
            let hasReceived = receiver.withLock { receiver in (try? receiver.socket?.receive(&frame)) == true }
            guard hasReceived else { return }
            let received = ReceivedFrame(frame)
            if received.malformed == nil { received.refuse() }
        }
    }

    /// Calls a handler when the port becomes invalid: at once when it is already.
    ///
    /// Handlers are called in the order they were set, after the message in hand. One that is set while the port ends,
    /// inside another for instance, is called after those before it.
    /// The corresponding notification is `NSPortDidBecomeInvalidNotification`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) {
        guard !crl_is_forked() else { return }
        let isLate = receiver.withLock { receiver in
            if !receiver.hasTold { receiver.invalidationHandlers.append(handler) }
            return receiver.hasTold
        }
        if isLate { handler() }
    }

    /// How long messages that were sent may take to leave the process when it exits; one second unless set.
    ///
    /// At the bound the process ends all the same. Any thread may set it.
    public static var flushBound: Duration {
        get { .milliseconds(PortProcess.current.flushBound.load(ordering: .relaxed)) }
        set {
            // libzmq takes an Int32 of milliseconds; that is 24 days.
            let bound = min(max(newValue, .zero), .milliseconds(Int32.max))
            PortProcess.current.flushBound.store(Int(bound / .milliseconds(1)), ordering: .relaxed)
        }
    }

    /// The process ends: no handler runs, nothing more is received.
    func close() {
        receiver.withLock { receiver in
            receiver.isValid = false
            receiver.socket = nil
        }
        wakeWaiters()
    }

    // MARK: Other processes

    /// Makes the port one that other processes can connect to: bound and listening before anybody can know of it.
    ///
    /// - Returns: The registry directory in which it can be found.
    func expose() throws(PortError) -> String {
        let known = try receiver.withLock { (receiver) throws(PortError) in
            guard receiver.isValid else { throw .isInvalid(port: description) }
            return receiver.exposedIn
        }
        if let known { return known.path }
        return try exposeAnew()
    }

    /// The same; also when its directory was removed since, and another is there.
    func exposeAnew() throws(PortError) -> String {
        let directory = try PortProcess.current.directory(directoryPath)
        // It takes a while: not while messages wait for the lock below.
        try directory.open()
        try receiver.withLock { (receiver) throws(PortError) in
            guard receiver.isValid else { throw .isInvalid(port: description) }
            guard receiver.exposedIn !== directory else { return }
            let (descriptor, path) = try directory.makeSocket(for: id)
            PortProcess.current.guardListener(descriptor)
            do throws(PortError) {
                try receiver.socket?.listen(on: descriptor, path)
            } catch {
                directory.removeSocket(of: id)
                Glibc.close(descriptor)
                throw error
            }
            receiver.exposedIn = directory
        }
        return directory.path
    }

    /// The port has a name, to be given up with it.
    func tookName(_ name: String, in directory: PortDirectory) {
        receiver.withLock { $0.names.append((directory, name)) }
        if !isValid { directory.abandon(name, of: id) }
    }

    func gaveUpName(_ name: String, in directory: PortDirectory) {
        receiver.withLock { $0.names.removeAll { $0.0 === directory && $0.1 == name } }
    }
}

extension Socket {
    fileprivate func listen(on descriptor: Int32, _ path: String) throws(PortError) {
        do {
            try set(.useDescriptor(descriptor))
            try bind("ipc://\(path)")
        } catch {
            throw PortError(error)
        }
    }
}
