import CRunLoopShims
import Glibc
import RunLoops
import Synchronization
import ZeroMQ

/// Who waits for a socket to become ready, or for somebody to tell it: a thread, a task or a queue.
///
/// Of several that wait for room in one socket only the first may watch the socket's own descriptor: it speaks in
/// edges, and the first to touch the socket eats the edge that the others wait for.
protocol Waiter: AnyObject, Sendable {
    /// Ends the wait of the moment, or the next one. Called with no lock held: a task may go on inside.
    func wake()
}

/// A thread that waits.
final class ThreadWaiter: Waiter {
    /// Nil when no descriptor was left for it. What is open goes on working then: the thread looks now and then.
    private let event = try? EventDescriptor()
    private let isTold = Atomic(false)

    private static let glance = Duration.milliseconds(10)

    func wake() {
        isTold.store(true, ordering: .sequentiallyConsistent)
        event?.raise()
    }

    /// - Parameter descriptor: The socket's own, for the one that may watch it.
    /// - Returns: False when the deadline came first.
    func wait(for descriptor: Int32?, until deadline: MonotonicInstant) -> Bool {
        while true {
            let glance = event == nil ? min(deadline, .now + Self.glance) : deadline
            let count = crl_poll(event?.descriptor ?? -1, descriptor ?? -1, glance.timeout)
            if count < 0, errno != EINTR { return false }
            if isTold.exchange(false, ordering: .sequentiallyConsistent) || count > 0 {
                event?.clear()
                return true
            }
            if count == 0, glance == deadline || deadline.hasPassed { return false }
        }
    }
}

extension Socket {
    /// The descriptor to watch, in the ports' errors. It speaks in edges: whoever watches it has just tried in vain.
    func watchedDescriptor() throws(PortError) -> Int32 {
        do { return try descriptor } catch { throw PortError(error) }
    }
}
