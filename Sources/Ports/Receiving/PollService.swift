import Glibc
import RunLoops
import Synchronization

/// What lets a foreign event loop serve a port: a descriptor that is readable while a message may wait.
///
/// It is an epoll set of the socket's descriptor and of an eventfd, which is raised while messages may wait that the
/// socket's descriptor does not report. Each raise is an edge for a poller that is edge-triggered.
final class PollService: Service {
    private let both: DescriptorSet
    private let event: EventDescriptor
    /// A duplicate: a forked child may keep the socket's descriptor open after the port's end.
    private let socket: Int32
    /// Saves the system call of a `clear` without need.
    private let mayBeRaised = Atomic(false)

    /// The descriptor must be open during the call.
    init(_ descriptor: Int32) throws(RunLoopError) {
        (both, event) = (try DescriptorSet(), try EventDescriptor())
        socket = try Descriptor.duplicate(descriptor)
        try both.add(event.descriptor)
        try both.add(socket)
    }

    deinit { close(socket) }

    var descriptor: Int32 { both.descriptor }

    func wake() {
        event.raise()
        // After the raise: one that is noted too early could stay for ever.
        mayBeRaised.store(true, ordering: .sequentiallyConsistent)
    }

    /// Lowers the descriptor. True when that may have eaten a wake-up: look for messages then.
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
        // CFRunLoop counts a turn without a message as one with.
        try channel.connectBell()
        add(service)
        tellOthersIfAny()
        return service
    }

    /// Handles messages in a foreign loop's turn. Returns their number.
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
            // Before the handler, which may run the foreign loop: the edge that began this turn is used up.
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

    /// Lowers the descriptor after a take in vain, and takes once more if that may have eaten a wake-up.
    private func again<Taken: ~Copyable>(_ service: PollService, _ take: () -> Taken?) -> Taken? {
        guard service.clear() else { return nil }
        let (isOpen, mayHaveMore) = state.withLock { ($0.lifecycle.isOpen, $0.mayHaveMore) }
        let taken = isOpen && mayHaveMore ? take() : nil
        // A foreign loop has to learn the end.
        if taken != nil || !isOpen { service.wake() }
        return taken
    }
}
