import CRunLoopShims
import Glibc
import RunLoops
import ZeroMQ

/// Who waits for a socket to become ready, or for somebody to tell it: a thread, a task or a queue.
///
/// Of several that wait for room in one socket only the first may watch the socket's own descriptor: it speaks in
/// edges, and the first to touch the socket eats the edge that the others wait for.
protocol Waiter: AnyObject, Sendable {
    /// Ends the wait of the moment, or the next one. Called with a lock held: it must call nothing back.
    func wake()
}

/// A thread that waits.
final class ThreadWaiter: Waiter {
    private let event: EventDescriptor

    init() throws(PortError) {
        event = try runLoop { () throws(RunLoopError) in try EventDescriptor() }
    }

    func wake() { event.raise() }

    /// - Parameter descriptor: The socket's own, for the one that may watch it.
    /// - Returns: False when the deadline came first.
    func wait(for descriptor: Int32?, until deadline: MonotonicInstant) -> Bool {
        while true {
            let count = crl_poll(event.descriptor, descriptor ?? -1, deadline.timeout)
            if count > 0 {
                event.clear()
                return true
            }
            if count == 0 || errno != EINTR { return false }
        }
    }
}

extension Socket {
    /// The descriptor to watch, in the ports' errors. It speaks in edges: whoever watches it has just tried in vain.
    func watchedDescriptor() throws(PortError) -> Int32 {
        do { return try descriptor } catch { throw PortError(error) }
    }
}
