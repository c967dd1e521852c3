import RunLoopLocks
import RunLoops

/// The sockets of this process that are connected to paths, as they were a moment ago.
///
/// libzmq does not report which sockets it has or which have ended. Finding out takes one system call per descriptor.
/// Thousands of senders may wait for one stopped process, so all that ask within a short time share one scan.
final class ConnectedSockets: Sendable {
    private struct Snapshot {
        var begin = MonotonicInstant.distantPast
        /// The earliest time of the next scan.
        var next = MonotonicInstant.distantPast
        /// The descriptors, by the ends of the paths.
        var found: [String: Int32] = [:]
    }

    private let last = Lock(Snapshot())

    /// The pause after a scan, as a multiple of the scan's duration.
    private static let pause = 20.0

    enum Answer {
        case connected(LocalSocket.Connection)
        case notConnected
        /// The last scan began before the given time, and the next one is not due. Ask again later, with the same time.
        case unknown
    }

    /// Finds the connection to a path.
    /// - Parameters:
    ///   - path: The path of a socket of another process.
    ///   - since: A time at which the connection existed. An earlier scan may have missed it.
    func connection(to path: String, since: MonotonicInstant) -> Answer {
        last.withLock { last in
            let now = MonotonicInstant.now
            if last.begin < since {
                guard last.next <= now else { return .unknown }
                let found = Dictionary(LocalSocket.connected().map { ($0.end, $0.number) }) { first, _ in first }
                let end = MonotonicInstant.now
                let next = end + .seconds(Self.pause * (now.duration(to: end) / .seconds(1)))
                last = Snapshot(begin: now, next: next, found: found)
            }
            guard let number = last.found[LocalSocket.end(of: path)] else { return .notConnected }
            let connection = LocalSocket.Connection(path: path, original: number)
            // The descriptor may have been closed since, and its number reused.
            if connection.isOpen { return .connected(connection) }
            last.found[LocalSocket.end(of: path)] = nil
            return .notConnected
        }
    }
}
