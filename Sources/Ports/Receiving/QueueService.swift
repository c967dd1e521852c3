import Dispatch
import RunLoopLocks
import RunLoops

/// A dispatch queue that handles a port's messages, one at a time. The housekeeping thread watches the descriptor.
/// Service and port retain each other until the port is invalid or has another queue.
final class QueueService: Service {
    private let port: Receiver
    private let face: (any AnyObject & Sendable)?
    private let queue: DispatchQueue

    private struct State {
        /// Whether a block of this service is on the queue.
        var isQueued = false
        /// Whether a message may have come since that block began.
        var isWoken = false
        var isStopped = false
        var watch: (any Watch)?
        var watched: Int32?
    }

    private let state = Lock(State())

    init(_ port: Receiver, _ queue: DispatchQueue, keeping face: (any AnyObject & Sendable)?) {
        self.port = port
        self.face = face
        self.queue = queue
    }

    var label: String { queue.label }
    /// Whether a block of this service is on the queue.
    var isBusy: Bool { state.withLock { $0.isQueued } }
    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Stops the service after the message in hand.
    func stop() {
        let watch = state.withLock { state in
            state.isStopped = true
            return state.watch.take()
        }
        watch?.invalidate()
    }

    func wake() {
        let isFirst = state.withLock { state in
            state.isWoken = true
            guard !state.isQueued, !state.isStopped else { return false }
            state.isQueued = true
            return true
        }
        if isFirst { queue.async { self.serve() } }
    }

    private func serve() {
        state.withLock { $0.isWoken = false }
        let mayHaveMore = port.serve(self)
        let goesOn = state.withLock { state in
            state.isQueued = (mayHaveMore || state.isWoken) && !state.isStopped
            return state.isQueued
        }
        // A new block lets other blocks on the queue have their turn.
        if goesOn { queue.async { self.serve() } }
    }

    /// Wakes the service when the descriptor becomes readable. The descriptor must be open during the call.
    func watch(_ descriptor: Int32) {
        var former: (any Watch)?
        let isWatched = state.withLock { state in
            if state.isStopped || state.watch?.isValid == true && state.watched == descriptor { return true }
            // The port's first lane changes the descriptor.
            former = state.watch
            state.watch = try? port.context.housekeeping.watch(descriptor, "a port that a queue serves", for: self)
            state.watched = descriptor
            return state.watch != nil
        }
        former?.invalidate()
        // No thread is left to watch with: poll.
        if !isWatched { queue.asyncAfter(deadline: .now() + .milliseconds(10)) { self.wake() } }
    }
}

extension Receiver {
    /// Lets a dispatch queue, or none, handle the messages in place of the former one. The queue retains the face.
    func setQueue(_ queue: DispatchQueue?, keeping face: (any AnyObject & Sendable)? = nil) throws(PortError) {
        try Fork.check()
        let service = queue.map { QueueService(self, $0, keeping: face) }
        let former = try state.withLock { (state) throws(PortError) in
            guard state.lifecycle.isOpen else { throw .isInvalid(port: identity) }
            let former = state.queue
            state.queue = service
            state.waiters.removeAll { $0 === former }
            if let service { state.waiters.append(service) }
            return former
        }
        former?.stop()
        // The descriptor does not report earlier messages.
        service?.wake()
    }

    /// The most messages that are handled before other blocks have their turn on the queue.
    private static let queueBatch = 64

    /// Handles messages in a queue's turn.
    /// - Returns: Whether there may be more.
    func serve(_ service: QueueService) -> Bool {
        guard (try? beginTurn()) != nil else { return false }
        defer { endTurn() }
        var used = LocalQueue.Batch()
        defer { channel.localQueue?.reuse(&used) }
        for _ in 0..<Self.queueBatch {
            guard !service.isStopped else { return false }
            guard var delivery = take(waiter: service) else {
                // The descriptor stays open until the end of the turn.
                if let descriptor = state.withLock({ try? $0.watchedDescriptor() }) {
                    service.watch(descriptor)
                }
                return false
            }
            if delivery.isFirst { tellOthers() }
            delivery.handle(&used, inHand)
        }
        return true
    }
}
