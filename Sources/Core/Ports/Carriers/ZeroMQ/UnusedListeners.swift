import RunLoopLocks
import RunLoops

/// The listening sockets of ports to which nobody has connected by ZeroMQ. Most ports never have such a peer, because their
/// senders use rings. libzmq gets a socket when somebody connects to it, and accepts nothing before.
final class UnusedListeners: Sendable {
    private let housekeeping: Housekeeping
    private let use: @Sendable (_ port: UInt64) -> Void
    /// Nil before the first socket.
    private let set = Lock<DescriptorSet?>(nil)

    /// - Parameter use: Called on the housekeeping thread with the number of a port to which somebody has connected.
    init(_ housekeeping: Housekeeping, _ use: @escaping @Sendable (_ port: UInt64) -> Void) {
        (self.housekeeping, self.use) = (housekeeping, use)
    }

    /// - Throws: ``PortError`` when the kernel refuses to watch the socket.
    func add(_ listener: Int32, of port: UInt64) throws(PortError) {
        try set.withLock { (set) throws(PortError) in
            let watched = if let set { set } else { try makeSet() }
            set = watched
            try runLoop { () throws(RunLoopError) in try watched.add(listener, token: port) }
        }
    }

    private func makeSet() throws(PortError) -> DescriptorSet {
        let made = try runLoop { () throws(RunLoopError) in try DescriptorSet() }
        let source = ThreadRunLoop.Source1(
            descriptor: made.descriptor, label: { "sockets without a connection" }, duplicates: false
        ) { [use] _ in
            made.take(use)
            return true
        }
        try housekeeping.add(source)
        return made
    }

    /// Needed before the socket is closed, or is libzmq's.
    func remove(_ listener: Int32) { set.withLock { $0 }?.remove(listener) }
}
