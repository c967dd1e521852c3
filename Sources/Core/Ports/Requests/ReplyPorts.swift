import RunLoopLocks
import Synchronization

/// The ports for replies: two for each registry directory, because the process that is asked can certainly reach that
/// directory. The asking threads serve one port. The housekeeping thread serves the other, for tasks.
final class ReplyPorts: Sendable {
    fileprivate struct Key: Hashable {
        let path: String
        let isForTasks: Bool
        let limit: Int
    }

    private struct State {
        var ports: [Key: (port: Receiver, users: Int, lastUse: Int)] = [:]
        var uses = 0

        mutating func use(_ key: Key) -> Receiver? {
            uses += 1
            ports[key]?.users += 1
            ports[key]?.lastUse = uses
            return ports[key]?.port
        }

        /// Removes the least recently used ports beyond ``most`` that nobody uses, because a program may use any number
        /// of directories.
        mutating func removeSurplus() -> [Receiver] {
            let unused = ports.filter { $0.value.users == 0 }.sorted { $0.value.lastUse < $1.value.lastUse }
            let surplus = unused.prefix(max(0, ports.count - ReplyPorts.most))
            for key in surplus.map(\.key) { ports[key] = nil }
            return surplus.map(\.value.port)
        }
    }

    /// A port for replies that stays until the use ends.
    struct Use {
        let port: Receiver
        fileprivate let key: Key
    }

    let pending: PendingReplies
    private let context: ReceiveContext
    /// The registry directory for requests inside the runtime.
    private let ownPath: String
    private let state = Lock(State())
    private let limitBytes = Atomic(64 << 20)

    /// The most ports that stay without a user.
    private static let most = 16

    init(_ context: ReceiveContext, _ statistics: StatisticsCollector, ownPath: String) {
        self.context = context
        self.ownPath = ownPath
        pending = PendingReplies(context.channels, statistics)
    }

    /// The largest reply, in bytes.
    var limit: Int {
        get { limitBytes.load(ordering: .relaxed) }
        set { limitBytes.store(newValue, ordering: .relaxed) }
    }

    /// The port for replies from the channel's owner. ``end(_:)`` ends the use.
    func use(for channel: SendChannel, isForTasks: Bool = false, limit: Int? = nil) throws(PortError) -> Use {
        let key = Key(
            path: channel.isLocal ? ownPath : channel.path, isForTasks: isForTasks, limit: limit ?? self.limit)
        if let port = state.withLock({ $0.use(key) }) { return Use(port: port, key: key) }
        let made = try Receiver(
            .init(message: key.limit), directoryPath: key.path, context,
            handlers: .init(message: { [pending] message in
                switch message.header.kind {
                case .reply, .failure: pending.arrived(message)
                default: message.refuse()
                }
            }))
        if isForTasks { try made.schedule(in: context.housekeeping.loop(), forMode: .default) }
        let (port, surplus) = state.withLock { state in
            if let port = state.use(key) { return (port, [made]) }
            state.ports[key] = (made, 0, 0)
            return (state.use(key) ?? made, state.removeSurplus())
        }
        // Loops would keep the surplus ports.
        for port in surplus { port.invalidate() }
        return Use(port: port, key: key)
    }

    func end(_ use: Use) { state.withLockUnlessForked { $0.ports[use.key]?.users -= 1 } }

    func close() { _ = state.withLock { exchange(&$0.ports, with: [:]) } }
}
