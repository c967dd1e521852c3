import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// Lets a foreign event loop serve a port, by a descriptor that is readable while a message may wait.
///
/// The descriptor is an epoll set of the socket's descriptor and of an eventfd. The eventfd is raised while messages
/// may wait that the socket's descriptor does not report. Each raise is an edge for an edge-triggered poller.
final class PollTaker: HandlingTaker {
    private let both: DescriptorSet
    private let event: EventDescriptor
    /// A duplicate, because a forked child may keep the socket's descriptor open after the port's end.
    private let socket: Int32
    /// Kept, because the set watches its descriptor.
    private let bells = Lock<DescriptorSet?>(nil)
    /// Saves the system call of an unnecessary `clear`.
    private let mayBeRaised = Atomic(false)

    /// The descriptor must be open during the call.
    init(_ descriptor: Int32, _ bells: DescriptorSet?) throws(RunLoopError) {
        (both, event) = (try DescriptorSet(), try EventDescriptor())
        socket = try Descriptor.duplicate(descriptor)
        try both.add(event.descriptor)
        try both.add(socket)
        if let bells { try add(bells) }
    }

    deinit { close(socket) }

    /// The port has its first ring. Does nothing after an attempt that failed only for another of the port's takers.
    func add(_ bells: DescriptorSet) throws(RunLoopError) {
        if self.bells.withLock({ $0 != nil }) { return }
        try both.add(bells.descriptor)
        self.bells.withLock { $0 = bells }
    }

    var descriptor: Int32 { both.descriptor }

    func wake() {
        event.raise()
        // Set after the raise. A concurrent `clear` between an earlier set and the raise would reset the flag, and the
        // raised descriptor would stay raised for ever.
        mayBeRaised.store(true, ordering: .sequentiallyConsistent)
    }

    /// Lowers the descriptor.
    /// - Returns: Whether that may have consumed a wake-up. Then the caller has to look for messages.
    @discardableResult
    func clear() -> Bool {
        guard mayBeRaised.exchange(false, ordering: .sequentiallyConsistent) else { return false }
        event.clear()
        return true
    }
}
