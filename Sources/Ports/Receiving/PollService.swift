import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// Lets a foreign event loop serve a port, by a descriptor that is readable while a message may wait.
///
/// The descriptor is an epoll set of the socket's descriptor and of an eventfd. The eventfd is raised while messages
/// may wait that the socket's descriptor does not report. Each raise is an edge for an edge-triggered poller.
final class PollService: Service {
    private let both: DescriptorSet
    private let event: EventDescriptor
    /// A duplicate, because a forked child may keep the socket's descriptor open after the port's end.
    private let socket: Int32
    /// Kept, because the set watches its descriptor.
    private let bells = Lock<BellSet?>(nil)
    /// Saves the system call of an unnecessary `clear`.
    private let mayBeRaised = Atomic(false)

    /// The descriptor must be open during the call.
    init(_ descriptor: Int32) throws(RunLoopError) {
        (both, event) = (try DescriptorSet(), try EventDescriptor())
        socket = try Descriptor.duplicate(descriptor)
        try both.add(event.descriptor)
        try both.add(socket)
    }

    deinit { close(socket) }

    /// The port has its first lane.
    func add(_ bells: BellSet) throws(RunLoopError) {
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

extension Receiver {
    func makePollService() throws(PortError) -> PollService {
        // The turn keeps the socket open.
        try beginTurn()
        defer { endTurn() }
        try context.channels.sockets.checkReserve()
        let descriptor = try state.withLock { (state) throws(PortError) in try state.socket?.watchedDescriptor() }
        let service = try runLoop { () throws(RunLoopError) in try PollService(descriptor ?? -1) }
        // The bell is connected now, because its connection makes the descriptor readable, and CFRunLoop counts a turn
        // without a message as one with a message.
        try channel.connectBell()
        try state.withLock { (state) throws(PortError) in
            if let bells = state.arrivals.lanes.bells {
                try runLoop { () throws(RunLoopError) in try service.add(bells) }
            }
            state.add(service)
        }
        tellOthersIfAny()
        return service
    }

    /// Handles messages in a foreign loop's turn.
    /// - Returns: The number of messages.
    func serve(_ service: PollService, atMost limit: Int, while goesOn: () -> Bool) throws(PortError) -> Int {
        try beginTurn()
        defer { endTurn() }
        var used = LocalQueue.Batch()
        defer { channel.localQueue?.reuse(&used) }
        var (count, hasMore) = (0, true)
        while count < limit, count == 0 || goesOn() {
            guard var delivery = take(waiter: service) ?? again(service, { take(waiter: service) }) else {
                return count
            }
            // Checked before the handler, which may run the foreign loop, because the edge that began this turn is
            // consumed.
            if count == 0 || delivery.isFirst {
                hasMore = mayHaveMore()
                if hasMore { delivery.isFirst ? tellOthers() : service.wake() }
            }
            delivery.handle(&used, inHand)
            count += 1
        }
        if !hasMore || !mayHaveMore(), service.clear(), mayHaveMore() { service.wake() }
        return count
    }

    /// Takes the next message for a foreign loop.
    func takeNow(_ service: PollService, takesRequests: Bool = false) throws(PortError) -> ReceivedMessage? {
        try beginTurn()
        defer { endTurn() }
        return takeMessage(takesRequests) ?? again(service) { takeMessage(takesRequests) }
    }

    /// Lowers the descriptor after a take that has found nothing. Lowering it may consume the wake-up of a message that
    /// has just arrived, so this takes once more then.
    private func again<Taken: ~Copyable>(_ service: PollService, _ take: () -> Taken?) -> Taken? {
        guard service.clear() else { return nil }
        let (isOpen, mayHaveMore) = state.withLock { ($0.lifecycle.isOpen, $0.mayHaveMore) }
        let taken = isOpen && mayHaveMore ? take() : nil
        // The foreign loop has to learn the end of the port.
        if taken != nil || !isOpen { service.wake() }
        return taken
    }
}
