import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// The shared state of the ports of a process: the ZeroMQ context, the control connections, and the thread that serves
/// them.
///
/// A program needs no other runtime than ``shared``, which is made at its first use. A second runtime is for tests,
/// because the ports of two runtimes in one process talk to each other as the ports of two processes do. The ports that
/// are made with ``nameServer`` belong to the runtime.
///
/// A runtime lives as long as somebody retains the runtime, one of its name servers or one of its ports. To peers, the
/// end of a runtime is the death of a process.
public final class PortRuntime: Sendable {
    /// The runtime that ports and name servers use unless told otherwise. It ends with the process.
    public static let shared = PortRuntime()

    /// How messages travel between this process and others.
    public enum SharedMemoryUse: Sendable {
        /// By rings in memory that both processes map, where both can; else by ZeroMQ.
        case whenPossible
        /// By ZeroMQ alone.
        case never
    }

    /// False with `PORTS_SHARED_MEMORY=never`, which keeps a process to ZeroMQ.
    private static let environmentAllowsRings: Bool = {
        // Its former name counts, too.
        for name in ["PORTS_SHARED_MEMORY", "PORTS_LANES"] {
            guard let word = getenv(name).map({ String(cString: $0) }), !word.isEmpty else { continue }
            if name == "PORTS_LANES" { log.warning("PORTS_LANES is called PORTS_SHARED_MEMORY now") }
            if word == "never" { return false }
            log.warning("\(name) is \(word.quoted), and the only word that it takes is never")
        }
        return true
    }()

    /// The default registry directory of the runtime.
    public let directory: String

    let incarnation = Incarnation.random()
    let housekeeping = Housekeeping()
    let channels: ChannelTable
    let ports = PortTable()
    let registry: Registry
    let statistics: StatisticsCollector
    let receiving: ReceiveContext
    let notices = RequestNotices()
    let replies: ReplyPorts
    let inspector: Inspector
    let finishing: FinishingPorts

    private let attachments = Lock<[ObjectIdentifier: any AnyObject & Sendable]>([:])
    private let flushMilliseconds = Atomic(1000)
    private let isClosed = Atomic(false)

    /// Makes a runtime.
    /// - Parameters:
    ///   - directory: The absolute path of the registry directory of its ports, unless they are told otherwise. Nil
    ///     stands for `$PORTS_DIRECTORY`, else `$XDG_RUNTIME_DIR/ports`, else `/tmp/ports-UID`.
    ///   - sharedMemory: How messages travel between this process and others.
    public init(directory: String? = nil, sharedMemory: SharedMemoryUse = .whenPossible) {
        Self.prepareProcess
        let directory = DefaultDirectory.withoutTrailingSlashes(directory ?? DefaultDirectory.choice.path)
        self.directory = directory
        let control = ControlConnectionTable(
            incarnation, housekeeping, takesRings: sharedMemory == .whenPossible && Self.environmentAllowsRings)
        channels = ChannelTable(control)
        registry = Registry(control) { [ports] in ports.port($0)?.exposure }
        statistics = StatisticsCollector(control) { [ports] in ports.port($0) }
        receiving = ReceiveContext(channels: channels, ports: ports, registry: registry)
        replies = ReplyPorts(receiving, statistics, ownPath: directory)
        finishing = FinishingPorts(control)
        inspector = Inspector(receiving, statistics, replies.pending, notices)
        control.events = self
        Self.live.withLock { $0[ObjectIdentifier(self)] = Weak(self) }
    }

    deinit {
        guard !Fork.isChild else { return }
        _ = Self.live.withLock { $0.removeValue(forKey: ObjectIdentifier(self)) }
        close()
        registry.releaseDirectories()
        housekeeping.stop()
    }

    var control: ControlConnectionTable { channels.control }

    /// A table of a higher floor, made at the first use, and kept as long as the runtime.
    func attachment<Table: AnyObject & Sendable>(_ make: () -> Table) -> Table {
        attachments.withLock { attachments in
            if let table = attachments[ObjectIdentifier(Table.self)] as? Table { return table }
            let made = make()
            attachments[ObjectIdentifier(Table.self)] = made
            return made
        }
    }

    private static let live = Lock<[ObjectIdentifier: Weak<PortRuntime>]>([:])

    /// Once, before anything else.
    private static let prepareProcess: Void = {
        // The log has to see the standard error before a file of the library can get its number.
        log.checkLevel()
        var limit = rlimit(of: RLIMIT_NOFILE)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        crl_prepare_fork()
        AcceptGuard.begin
        atexit {
            guard !Fork.isChild else { return }
            for runtime in PortRuntime.live.withLock({ $0.values.compactMap(\.object) }) { runtime.close() }
            log.close(before: .now + .milliseconds(100))
        }
    }()

    /// How long the end of the runtime waits for sent messages to leave the process; one second unless set. After the
    /// bound the process ends, and the remaining messages are lost. See ``setFlushBound(_:)``.
    public var flushBound: Duration { .milliseconds(flushMilliseconds.load(ordering: .relaxed)) }

    /// Sets ``flushBound``, to zero or more milliseconds. Any thread may set the bound.
    /// - Throws: ``PortError/invalidDuration(name:value:allowed:)`` for a negative bound, or more than 24 days.
    public func setFlushBound(_ bound: Duration) throws(PortError) {
        // libzmq takes an Int32 of milliseconds.
        try PortError.check("flushBound", bound, in: .zero ... .milliseconds(Int32.max))
        flushMilliseconds.store(Int(bound / .milliseconds(1)), ordering: .relaxed)
    }

    /// The largest reply that this process takes, in bytes; 64 MiB unless set. A larger reply throws
    /// ``PortError/messageTooLarge(port:size:limit:)`` in the server, and the asker gets
    /// ``PortError/replyTooLarge(port:size:limit:)``. See ``setReplyLimit(_:)``.
    public var replyLimit: Int { replies.limit }

    /// Sets ``replyLimit``, to 1 KiB or more, for requests made from now on. Any thread may set the limit.
    /// - Throws: ``PortError/invalidLimit(name:value:allowed:)`` for less than 1 KiB, or 2 GiB and more.
    public func setReplyLimit(_ limit: Int) throws(PortError) {
        try PortError.check("replyLimit", limit, in: 1024...Wire.largestMessage)
        replies.limit = limit
    }

    /// The number of late replies that were dropped. A late reply comes after its request has ended.
    public var lateReplyCount: Int { replies.pending.lateCount }

    /// Whether ports are closed, or will be in a moment.
    var isEnding: Bool { isClosed.load(ordering: .relaxed) }

    /// Flushes within the bound, fails all waiters, and removes the runtime's files.
    func close() {
        guard !isClosed.exchange(true, ordering: .relaxed) else { return }
        channels.isFlushing.store(true, ordering: .releasing)
        let bound = flushMilliseconds.load(ordering: .relaxed)
        let deadline = MonotonicInstant.now + .milliseconds(bound)
        /// A stopped process also gets less time by the time that the end of a port has waited for it.
        func end(of channel: SendChannel) -> MonotonicInstant {
            let silence = finishing.silence(of: channel.id.incarnation)
            return silence.map { min(deadline, $0 + .milliseconds(bound)) } ?? deadline
        }
        // The housekeeping thread sends posted frames, so it must not wait for them.
        while !housekeeping.isCurrent, channels.all.contains(where: { $0.mustFlush && !end(of: $0).hasPassed }) {
            usleep(500)
        }
        let zeroMQ = channels.sockets.close()
        channels.waitForBells()
        // Ports end first, because the reply to a message that is handled later could not leave.
        for port in ports.all { port.close() }
        channels.close(before: end)
        if let zeroMQ {
            // Termination may block, so it gets a thread of its own, which is left behind at the deadline.
            let thread = try? RunLoopThread(name: "ports end") { _ in zeroMQ.terminate() }
            thread?.stop()
            thread?.join(until: deadline)
        }
        registry.close(before: max(deadline, .now + .milliseconds(100)))
        control.close()
        statistics.close()
        inspector.close()
        channels.connections.close()
        replies.close()
    }
}

extension PortRuntime {
    /// Makes a waiter for a task that waits for something else than a port.
    package func makeTaskWaiter() -> TaskWaiter { TaskWaiter(housekeeping) }
}
