import RunLoopLocks
import RunLoops

/// The sockets of this process that are connected to paths, as they were a moment ago.
///
/// libzmq says neither which sockets it has nor which have ended, and to find out takes a question to the kernel about
/// each descriptor. Thousands of senders may wait for one stopped process, so one look serves all that ask meanwhile.
final class ConnectedSockets: Sendable {
    private struct Snapshot {
        var begin = MonotonicInstant.distantPast
        /// When there may be another look.
        var next = MonotonicInstant.distantPast
        /// The descriptors, by the ends of the paths.
        var found: [String: Int32] = [:]
    }

    private let last = Lock(Snapshot())

    /// The pause after a look, as a multiple of the time that it took.
    private static let pause = 20.0

    enum Answer {
        case connected(LocalSocket.Connection)
        case notConnected
        /// The last look began too early, and it is too early for another: ask again later, with the same time.
        case unknown
    }

    /// The connection to a path.
    /// - Parameter since: When the asker knew that the socket had been connected: an earlier look may not have seen it.
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
