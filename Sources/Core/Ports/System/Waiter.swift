import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// A thread, a task or a queue that waits for an event or for a socket's descriptor.
///
/// libzmq's descriptor is edge-triggered, and any call on the socket consumes the edge. If two waiters polled the
/// descriptor, a call of the first would consume the edge that the second waits for. So of several waiters for room,
/// only the first watches the descriptor.
protocol Waiter: AnyObject, Sendable {
    /// Ends the current wait, or the next. Called with no lock held: a task may continue inside the call.
    func wake()
}

/// A waiter that calls the port's handlers.
protocol HandlingTaker: Waiter {}

final class ThreadWaiter: Waiter {
    /// Nil when no descriptor was left. Then the thread polls every 10 ms.
    private let event = try? EventDescriptor()
    private let isWoken = Atomic(false)

    func wake() {
        isWoken.store(true, ordering: .sequentiallyConsistent)
        event?.raise()
    }

    /// Blocks until a wake-up, or until the descriptor is readable.
    /// - Returns: False when the deadline came first.
    func wait(for descriptor: Int32?, until deadline: MonotonicInstant) -> Bool {
        while true {
            let end = event == nil ? min(deadline, .now + .milliseconds(10)) : deadline
            let count = crl_poll(event?.descriptor ?? -1, descriptor ?? -1, end.timeout)
            if count < 0, errno != EINTR { return false }
            if isWoken.exchange(false, ordering: .sequentiallyConsistent) || count > 0 {
                event?.clear()
                return true
            }
            if count == 0, end == deadline || deadline.hasPassed { return false }
        }
    }
}

/// A source or a timer that wakes a waiter once, until it is invalidated.
protocol Watch: AnyObject, Sendable {
    var isValid: Bool { get }
    func invalidate()
}

extension ThreadRunLoop.Source1: Watch {}
extension ThreadRunLoop.Timer: Watch {}

extension Housekeeping {
    /// Wakes the waiter once, when the descriptor becomes readable. When no descriptor is left for watching, wakes it
    /// after 10 ms, so that the waiter polls. The descriptor must be open during the call.
    /// - Throws: ``PortError`` without a housekeeping thread.
    func watch(_ descriptor: Int32, _ label: String, for waiter: some Waiter) throws(PortError) -> any Watch {
        let source = ThreadRunLoop.Source1(descriptor: descriptor, label: label) { [weak waiter] turn in
            turn.source.invalidate()
            waiter?.wake()
            return true
        }
        do throws(PortError) {
            try add(source)
            return source
        } catch {
            let timer = ThreadRunLoop.Timer(after: .milliseconds(10), label: label) { [weak waiter] timer in
                timer.invalidate()
                waiter?.wake()
            }
            try add(timer)
            return timer
        }
    }
}
