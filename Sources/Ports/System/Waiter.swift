import CRunLoopShims
import Glibc
import RunLoops
import Synchronization
import ZeroMQ

/// A thread, a task or a queue that waits for an event or for a socket's descriptor. The descriptor is edge-triggered,
/// and any call on the socket consumes the edge: of several waiters for room, only the first watches the descriptor.
protocol Waiter: AnyObject, Sendable {
    /// Ends the current wait, or the next. Called with no lock held: a task may continue inside the call.
    func wake()
}

/// A waiter that calls the port's handlers.
protocol Service: Waiter {}

final class ThreadWaiter: Waiter {
    /// Nil when no descriptor was left. Then the thread polls, a hundred times a second.
    private let event = try? EventDescriptor()
    private let isWoken = Atomic(false)

    func wake() {
        isWoken.store(true, ordering: .sequentiallyConsistent)
        event?.raise()
    }

    /// Waits, the first waiter for the socket's descriptor, too. False when the deadline came first.
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

/// What wakes a waiter once, until it is invalidated.
protocol Watch: AnyObject, Sendable {
    var isValid: Bool { get }
    func invalidate()
}

extension ThreadRunLoop.Source1: Watch {}
extension ThreadRunLoop.Timer: Watch {}

extension Housekeeping {
    /// Wakes the waiter once, when the descriptor becomes readable; when no descriptor is left to watch it with, soon:
    /// then the waiter polls. The descriptor must be open during the call. Throws without a thread.
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

extension Socket {
    func watchedDescriptor() throws(PortError) -> Int32 {
        do { return try descriptor } catch { throw PortError(error) }
    }
}
