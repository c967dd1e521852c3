import Glibc
import RunLoopLocks
import Synchronization

/// The closed sockets of a context that libzmq may not have ended yet. Until then, each holds its descriptor.
///
/// libzmq's reaper thread ends the sockets in the order in which they were closed, and a socket without connections at
/// once. Threads that make and close sockets can be faster than the reaper, or the reaper may have no processor. So a
/// thread that makes a socket first waits for the reaper when too many are closed.
struct ClosedSockets: ~Copyable, Sendable {
    /// The approximate number of closed sockets above which the next socket waits.
    static let most = 64
    /// The milliseconds to wait for the reaper.
    private static let patience: Int32 = 2000

    /// The sockets that were closed since somebody last waited for the reaper.
    private let count = Atomic(0)
    private let waiting = Lock(())

    func note() { count.add(1, ordering: .releasing) }

    /// Waits until the reaper has ended the sockets that are closed now.
    ///
    /// - Returns: False when there are no more than `most`, or the reaper has not ended them in time.
    @discardableResult
    func awaitEnd(ifMoreThan most: Int, in context: ZeroMQContext) -> Bool {
        guard count.load(ordering: .acquiring) > most else { return false }
        return waiting.withLock { _ in
            let closed = count.load(ordering: .acquiring)
            // Another thread may have waited for them meanwhile.
            guard closed > most else { return true }
            let areEnded: Bool
            do throws(ZeroMQError) { areEnded = try Self.passReaper(in: context) } catch { return false }
            // The wait itself closes two sockets. When the reaper is too slow, the next sockets do not wait again: others
            // may wait for this thread.
            if areEnded || most > 0 { count.subtract(closed + 2, ordering: .releasing) }
            return areEnded
        }
    }

    /// Closes another socket, and waits until the reaper disconnects it. By then the reaper has ended all sockets
    /// before it.
    private static func passReaper(in context: ZeroMQContext) throws(ZeroMQError) -> Bool {
        let address = "inproc://reaper"
        let witness = try ZeroMQSocket(atOnce: .pull, in: context)
        try witness.bind(address)
        defer { try? witness.unbind(address) }
        try connectAndClose(address, seenBy: witness, in: context)
        var poll = pollfd(fd: try witness.descriptor, events: Int16(POLLIN), revents: 0)
        var result: Int32
        repeat { result = Glibc.poll(&poll, 1, patience) } while result < 0 && errno == EINTR
        return result == 1
    }

    private static func connectAndClose(
        _ address: String, seenBy witness: borrowing ZeroMQSocket, in context: ZeroMQContext
    ) throws(ZeroMQError) {
        let last = try ZeroMQSocket(atOnce: .push, in: context)
        try last.set(.linger(0))
        try last.connect(address)
        // Handles the connection. From here on, only its end makes the descriptor readable.
        _ = try witness.events()
        _ = consume last
    }
}
