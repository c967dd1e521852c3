import CAcceptGuard
import CRunLoopShims
import Glibc
import RunLoops
import Synchronization
import ZeroMQ

/// What all ports of this process share.
final class PortProcess: Sendable {
    static let current = PortProcess()

    let incarnation = Incarnation.random()
    /// In the frames that stay in this process, and known to nobody else.
    let mark = UInt32.random(in: 1 ... .max)
    let peers = Peers()
    let connections = Connections()
    let replies = PendingReplies()
    let sentCounts = SentCounts()

    /// A table's entry. Its object may be let go of by anybody at any time, and its deinit takes the table's lock: so
    /// a strong reference must never end while that is held, only leave with the result.
    ///
    /// A class, because a dictionary whose values hold weak references themselves corrupts them (Swift 6.3, debug).
    private final class Weak<Object: AnyObject & Sendable>: Sendable {
        weak let object: Object?
        let identity: ObjectIdentifier

        init(_ object: Object) {
            self.object = object
            identity = ObjectIdentifier(object)
        }
    }

    private struct State {
        var context: Context?
        var ports: [UInt64: Weak<MachPort>] = [:]
        /// By process, and by the port's number.
        var channels: [Incarnation: [UInt64: Weak<SendChannel>]] = [:]
        var directories: [String: PortDirectory] = [:]
        var desks: [String: CheckInDesk] = [:]
        var lastNumber: UInt64 = 0
        var isClosing = false

        subscript(port: PortID) -> Weak<SendChannel>? {
            get { channels[port.incarnation]?[port.number] }
            set {
                channels[port.incarnation, default: [:]][port.number] = newValue
                if newValue == nil, channels[port.incarnation]?.isEmpty == true { channels[port.incarnation] = nil }
            }
        }
    }

    private let state = Mutex(State())
    private let housekeeping = Mutex<RunLoopThread?>(nil)

    private init() {
        raiseDescriptorLimit()
        crl_prepare_fork()
        cag_begin(Int32(Self.reserve)) { pid, uid, reason in PortProcess.current.refused(pid, uid, reason) }
        atexit { PortProcess.current.close() }
    }

    static func checkUsable() throws(PortError) {
        if crl_is_forked() {
            throw .unavailable(reason: "this process is a fork of the one that used them; use exec, or fork earlier")
        }
    }

    // MARK: Context and descriptors

    func context() throws(PortError) -> Context {
        try Self.checkUsable()
        return try state.withLock { (state) throws(PortError) in
            if state.isClosing { throw .unavailable(reason: "the process is ending") }
            if let context = state.context { return context }
            let made = try zeroMQ { () throws(ZeroMQError) in
                try Context(maxSockets: Int32(clamping: Descriptor.limit))
            }
            state.context = made
            return made
        }
    }

    /// libzmq aborts the process when a connection comes in and no descriptor is left; so ports stop before that.
    private static let reserve = 64

    /// Has a listening socket, of a port or of the control connections, let in only whom there is room for.
    func guardListener(_ descriptor: Int32) {
        let isGuarded = cag_guard(descriptor, Int32(Peers.most + Peers.mostCallers)) && cag_is_in_force()
        if !isGuarded {
            log.warning(
                once: "unguarded",
                "ports of this process are not safe from connections that come in when no descriptor is left")
        }
    }

    /// A connection was refused. Called on libzmq's own thread.
    private func refused(_ pid: pid_t, _ uid: uid_t, _ reason: cag_reason) {
        let text = Self.text(reason)
        log.warning(about: .process(pid), once: text, "refused process \(pid) of user \(uid): it \(text)")
    }

    private static func text(_ reason: cag_reason) -> String {
        switch reason {
        case cag_another_user: "is another user's"
        case cag_one_too_many: "is one too many"
        default: "finds no descriptor left"
        }
    }

    func checkReserve() throws(PortError) {
        let lowestFree = fcntl(0, F_DUPFD_CLOEXEC, 0)
        if lowestFree >= 0 { Glibc.close(lowestFree) }
        let limit = Int(clamping: Descriptor.limit)
        let isExhausted = lowestFree < 0 ? errno == EMFILE : Int(lowestFree) >= limit - Self.reserve
        if isExhausted { throw .outOfDescriptors(limit: limit) }
    }

    /// Why libzmq says EMFILE: it does also when it has made as many sockets as it was told.
    var socketsGone: PortError? {
        guard (try? checkReserve()) != nil, let context = state.withLock({ $0.context }) else { return nil }
        return .outOfSockets(limit: context.maxSockets)
    }

    private func raiseDescriptorLimit() {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    // MARK: Ports and channels

    /// A number that no port of this process has had.
    func nextNumber() -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
    }

    func add(_ port: MachPort, _ channel: SendChannel) {
        state.withLock { state in
            state.ports[port.id.number] = Weak(port)
            state[port.id] = Weak(channel)
        }
    }

    /// How many ports and channels there are.
    var counts: (ports: Int, channels: Int) {
        state.withLock { state in (state.ports.count, state.channels.values.reduce(0) { $0 + $1.count }) }
    }

    func remove(_ port: PortID) { _ = state.withLock { $0.ports.removeValue(forKey: port.number) } }

    func port(_ number: UInt64) -> MachPort? { state.withLock { $0.ports[number]?.object } }

    /// The one channel to the port, made if need be.
    ///
    /// - Parameter replacesInvalid: Whether a channel that is invalid gets a successor: for those who have just heard
    ///   that the port has an owner.
    func channel(to right: WireRight, replacesInvalid: Bool = false) -> SendChannel {
        // The lock may have been another thread's at the time of the fork.
        if crl_is_forked() {
            let unusable = SendChannel(right, isLocal: false)
            unusable.shut()
            return unusable
        }
        // Each request brings its asker's right, and all but the first find the channel here.
        let isLocal = right.id.incarnation == incarnation
        let former = existingChannel(to: right.id)
        if let former, !replacesInvalid || isLocal || former.isValid { return former }
        let made = SendChannel(right, isLocal: isLocal, sentCount: former?.sentCount ?? 0)
        let channel = state.withLock { state in
            if let channel = state[right.id]?.object, channel !== former { return channel }
            state[right.id] = Weak(made)
            return made
        }
        if channel === made, isLocal ? port(right.id.number) == nil : right.path.isEmpty { channel.invalidate() }
        return channel
    }

    func existingChannel(to port: PortID) -> SendChannel? { state.withLock { $0[port]?.object } }

    func forgetChannel(_ port: PortID, _ identity: ObjectIdentifier) {
        // The lock may have been another thread's at the time of the fork.
        guard !crl_is_forked() else { return }
        state.withLock { state in
            if state[port]?.identity == identity { state[port] = nil }
        }
    }

    /// The channels to ports of another process that are valid.
    func channels(of incarnation: Incarnation) -> [SendChannel] {
        let channels = state.withLock { $0.channels[incarnation]?.values.compactMap(\.object) ?? [] }
        return channels.filter(\.isValid)
    }

    /// Those by whose rights the process is to be found there.
    func channels(of address: ControlAddress) -> [SendChannel] {
        channels(of: address.incarnation).filter { $0.path == address.directory }
    }

    /// A process is gone, and all of its ports with it.
    func processDied(_ address: ControlAddress) {
        for channel in channels(of: address) { channel.invalidate() }
    }

    func directory(_ path: String) throws(PortError) -> PortDirectory {
        try Self.checkUsable()
        let known = state.withLock { $0.directories[path] }
        if let known, known.folder.isAt(path) {
            try known.check()
            return known
        }
        let opened = try PortDirectory(path)
        let directory = state.withLock { state in
            // One directory may have several paths.
            let same = state.directories.values.first { $0.folder.identity == opened.folder.identity } ?? opened
            state.directories[path] = same
            return same
        }
        // It was removed, and somebody has made it again.
        if let known, known !== directory { known.moveNames(to: directory) }
        return directory
    }

    /// A port is invalid: whoever waits for the end of its name looks again.
    func tellNameWatchers() {
        for directory in state.withLock({ Array($0.directories.values) }) { directory.watcher.tell(.portInvalidated) }
    }

    func checkInDesk(for nameServer: PortNameServer) -> CheckInDesk {
        state.withLock { state in
            if let desk = state.desks[nameServer.path] { return desk }
            let desk = CheckInDesk(nameServer)
            state.desks[nameServer.path] = desk
            return desk
        }
    }

    // MARK: The housekeeping thread

    /// The thread that serves the control connections; never in the way of a message.
    func housekeepingLoop() throws(PortError) -> ThreadRunLoop {
        try housekeeping.withLock { (thread) throws(PortError) in
            if let thread { return thread.loop }
            let made = try runLoop { () throws(RunLoopError) in try RunLoopThread(name: "ports") }
            thread = made
            return made.loop
        }
    }

    var isHousekeeping: Bool { housekeeping.withLock { $0?.loop.isCurrent ?? false } }

    // MARK: The end

    /// How many milliseconds what was sent has, at exit, to reach the system.
    let flushBound = Atomic(1000)

    /// How many frames for other processes wait without a thread for room, or for a connection: sent, for their senders.
    let postedCount = Atomic(0)

    /// The process exits: what was sent gets its time, everybody who waits is told, and nothing is left behind.
    private func close() {
        guard !crl_is_forked() else { return }
        let bound = flushBound.load(ordering: .relaxed)
        let deadline = MonotonicInstant.now + .milliseconds(bound)
        // The housekeeping thread sends them, so it must not wait for that.
        while postedCount.load(ordering: .relaxed) > 0, !isHousekeeping, !deadline.hasPassed { usleep(500) }
        let (context, ports, channels, directories) = state.withLock { state in
            state.isClosing = true
            return (
                state.context, state.ports.values.compactMap(\.object),
                state.channels.values.flatMap { $0.values.compactMap(\.object) },
                Array(state.directories.values)
            )
        }
        let connections = LocalSocket.connections(to: Set(channels.compactMap(\.usedPath)))
        for channel in channels { channel.close(linger: Int32(clamping: bound)) }
        for port in ports { port.close() }
        if let context {
            let ended = Gate()
            // It is left behind if it does not come to an end in time.
            let thread = try? RunLoopThread(name: "ports end") { _ in
                context.terminate()
                ended.open()
            }
            if thread != nil { _ = ended.wait(until: deadline) }
            thread?.stop()
        }
        for connection in connections { connection.waitUntilRead(before: deadline) }
        for directory in directories { directory.removeOwnFiles(before: max(deadline, .now + .milliseconds(100))) }
        log.close(before: max(deadline, .now + .milliseconds(100)))
    }
}
