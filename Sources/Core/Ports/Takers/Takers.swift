import RunLoopLocks
import RunLoops

/// The loops, queues, threads and tasks that take a port's messages, and the descriptors that wake them.
///
/// Some calls are made under the lock of the port's ``Intake``. No call takes that lock under this one's lock.
final class Takers: Sendable {
    typealias Source = ThreadRunLoop.Source1

    private struct State {
        /// The socket's descriptor; nil when the port ends.
        var descriptor: Int32?
        weak var source: Source?
        /// Where ``source`` is scheduled.
        var places: [Place] = []
        /// Nil before the first ring.
        var bells: Bells?
        var waiters: [any Waiter] = []
        /// Whether a thread or a task has ever waited for a message. It may come back for the next.
        var hasHadWaiters = false
        /// The dispatch queue that handles messages; one of the waiters.
        var queue: QueueTaker?

        /// Forgets a place, and those whose loops have ended.
        mutating func removePlace(_ loop: ThreadRunLoop, _ mode: ThreadRunLoop.Mode) {
            places.removeAll { $0.loop == nil || $0.mode == mode && $0.loop === loop }
        }
    }

    /// A mode of a loop in which the port is scheduled.
    private struct Place {
        weak var loop: ThreadRunLoop?
        let mode: ThreadRunLoop.Mode

        /// Adds the source of the port's rings, unless the loop has ended.
        func add(_ bells: Source) throws(RunLoopError) {
            do throws(RunLoopError) {
                _ = try loop?.add(bells, forMode: mode)
            } catch .loopEnded {}
        }
    }

    /// The bells of the port's rings.
    private struct Bells {
        let set: DescriptorSet
        /// Handles the messages of rings in the loops.
        let source: Source
        /// The socket and the bells, for waiters that wait for one descriptor.
        let both: DescriptorSet
    }

    private let channel: SendChannel
    private let state: Lock<State>
    /// Keeps the socket open while a loop adds the port's source. A turn could not, because the loop may call the
    /// handler at once, and an invalidation in the handler waits for turns.
    private let scheduling = Lock(())

    init(_ channel: SendChannel, _ descriptor: Int32) {
        self.channel = channel
        state = Lock(State(descriptor: descriptor))
    }

    // MARK: Waking them

    /// Tells all takers that there may be more messages, which the descriptor does not report.
    func tell() {
        let (source, waiters) = state.withLock { ($0.source, $0.waiters) }
        source?.raise()
        for waiter in waiters { waiter.wake() }
    }

    /// - Parameter taker: A waiter that needs no wake-up.
    func wakeWaiters(except taker: (any Waiter)? = nil) {
        for waiter in state.withLock({ $0.waiters }) where waiter !== taker { waiter.wake() }
    }

    /// The loops' source; nil when no loop has the port.
    var source: Source? { state.withLock { $0.source } }

    var haveWaiters: Bool { state.withLock { !$0.waiters.isEmpty } }

    // MARK: Loops

    /// Adds the port's source to a loop.
    /// - Parameter make: Makes the source for a descriptor.
    func schedule(
        in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode, _ make: (Int32) -> Source
    ) throws(PortError) {
        try scheduling.withLock { _ throws(PortError) in
            let (source, bells) = try state.withLock { (state) throws(PortError) in
                guard let descriptor = state.descriptor else { throw .isInvalid(port: channel.identity) }
                let source = state.source ?? make(descriptor)
                state.source = source
                return (source, state.bells?.source)
            }
            try runLoop { () throws(RunLoopError) in
                try loop.add(source, forMode: mode)
                guard let bells else { return }
                do throws(RunLoopError) {
                    try loop.add(bells, forMode: mode)
                } catch {
                    // A loop that does not hear rings would leave their messages there.
                    loop.remove(source, forMode: mode)
                    throw error
                }
            }
            state.withLock { state in
                state.removePlace(loop, mode)
                state.places.append(Place(loop: loop, mode: mode))
            }
        }
    }

    func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode) {
        // A forked child shares the wait sets with its parent.
        let sources = scheduling.withLockUnlessForked { _ in
            state.withLock { state in
                state.removePlace(loop, mode)
                return [state.source, state.bells?.source]
            }
        }
        for case let source? in sources ?? [] { loop.remove(source, forMode: mode) }
    }

    func areScheduled(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode) -> Bool {
        guard let source = state.withLockUnlessForked({ $0.source }) ?? nil else { return false }
        return loop.contains(source, forMode: mode)
    }

    /// Lets all takers hear the bells of rings, too. Called before the first ring's sender can ring.
    /// - Parameter make: Makes the source for the loops.
    /// - Returns: False when the kernel watches no more descriptors, or the port ends.
    func hear(_ bells: DescriptorSet, _ make: () -> Source) -> Bool {
        scheduling.withLock { _ in
            let (descriptor, places, areHeard) = state.withLock { ($0.descriptor, $0.places, $0.bells != nil) }
            guard let descriptor else { return false }
            if areHeard { return true }
            let source = make()
            var waiters: [any Waiter]?
            do {
                let both = try DescriptorSet()
                try both.add(descriptor)
                try both.add(bells.descriptor)
                for place in places { try place.add(source) }
                waiters = try state.withLock { state -> [any Waiter]? in
                    guard state.descriptor != nil else { return nil }
                    for case let taker as PollTaker in state.waiters { try taker.add(bells) }
                    state.bells = Bells(set: bells, source: source, both: both)
                    return state.waiters
                }
            } catch {}
            // They wait for the socket's descriptor alone.
            for waiter in waiters ?? [] { waiter.wake() }
            // The next attempt begins again.
            if waiters == nil { source.invalidate() }
            return waiters != nil
        }
    }

    // MARK: Waiters

    /// A waiter is woken when there may be a message for it. It looks for messages after the call.
    func add(_ waiter: some Waiter) {
        state.withLock { state in
            state.waiters.append(waiter)
            state.hasHadWaiters = true
        }
    }

    /// Makes and adds the taker of a foreign loop. The socket is open during the call.
    func addPollTaker() throws(PortError) -> PollTaker {
        try state.withLock { (state) throws(PortError) in
            guard let descriptor = state.descriptor else { throw .isInvalid(port: channel.identity) }
            let bells = state.bells?.set
            let taker = try runLoop { () throws(RunLoopError) in try PollTaker(descriptor, bells) }
            state.waiters.append(taker)
            return taker
        }
    }

    func remove(_ waiter: some Waiter) { state.withLockUnlessForked { $0.waiters.removeAll { $0 === waiter } } }

    /// Lets a dispatch queue, or none, handle the messages in place of the former one.
    func setQueue(_ taker: QueueTaker?) throws(PortError) {
        let former = try state.withLock { (state) throws(PortError) in
            guard state.descriptor != nil else { throw .isInvalid(port: channel.identity) }
            let former = exchange(&state.queue, with: taker)
            state.waiters.removeAll { $0 === former }
            if let taker { state.waiters.append(taker) }
            return former
        }
        former?.stop()
    }

    /// The descriptor that reports messages; nil when the port ends.
    var descriptor: Int32? { state.withLock { state in state.descriptor.map { state.bells?.both.descriptor ?? $0 } } }

    /// The descriptor of the socket alone, for tests.
    var socketDescriptor: Int32? { state.withLock { $0.descriptor } }

    // MARK: Who takes

    struct Look {
        let source: Source?
        let queue: QueueTaker?
        let waiters: [any Waiter]
        let hasHadWaiters: Bool
        let descriptor: Int32?

        /// The loops that have the port, and the modes.
        var places: [(loop: ThreadRunLoop, modes: [ThreadRunLoop.Mode])] { source?.places ?? [] }

        /// Whether only the calling thread takes messages.
        /// - Parameter isHandling: Whether the calling thread has a turn.
        func isOnlyHere(isHandling: Bool) -> Bool {
            if waiters.isEmpty { return source?.isOnlyInCurrentLoop ?? false }
            // A second waiter may be another thread.
            return waiters.count == 1 && waiters[0] is any HandlingTaker && isHandling && source?.isInNoLoop != false
        }
    }

    var look: Look {
        state.withLock {
            Look(
                source: $0.source, queue: $0.queue, waiters: $0.waiters, hasHadWaiters: $0.hasHadWaiters,
                descriptor: $0.descriptor)
        }
    }

    // MARK: The end

    /// Leaves all loops for good, and wakes all waiters, which learn the end of the port: it takes no turns any more.
    func end() {
        let sources = state.withLock { state in
            state.descriptor = nil
            return [state.source, state.bells?.source]
        }
        wakeWaiters()
        // Before the socket is closed, and its descriptor's number reused.
        for source in sources { source?.invalidate() }
        scheduling.withLock { _ in }
    }

    /// Stops the dispatch queue, and closes the descriptors, when the turns of other threads have ended.
    func close() {
        let (queue, bells) = state.withLock { state in
            state.waiters.removeAll { $0 === state.queue }
            return (state.queue.take(), state.bells.take())
        }
        withExtendedLifetime(bells) {}
        queue?.stop()
    }
}
