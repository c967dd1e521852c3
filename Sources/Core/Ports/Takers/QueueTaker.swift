import Dispatch
import RunLoopLocks
import RunLoops

/// A dispatch queue that handles a port's messages, one at a time. The housekeeping thread watches the descriptor.
/// Taker and port retain each other until the port is invalid or has another queue.
final class QueueTaker: HandlingTaker {
    /// Handles messages in a turn of the queue. Returns whether there may be more.
    typealias Perform = @Sendable (QueueTaker) -> Bool

    private let queue: DispatchQueue
    private let housekeeping: Housekeeping
    private let perform: Perform

    private struct State {
        /// Whether a block of this taker is on the queue.
        var isQueued = false
        /// Whether a message may have come since that block began.
        var isWoken = false
        var isStopped = false
        var watch: (any Watch)?
        var watched: Int32?
    }

    private let state = Lock(State())

    init(_ queue: DispatchQueue, _ housekeeping: Housekeeping, _ perform: @escaping Perform) {
        (self.queue, self.housekeeping, self.perform) = (queue, housekeeping, perform)
    }

    var label: String { queue.label }
    /// Whether a block of this taker is on the queue.
    var isBusy: Bool { state.withLock { $0.isQueued } }
    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Stops the taker after the message in hand.
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
        let mayHaveMore = perform(self)
        let goesOn = state.withLock { state in
            state.isQueued = (mayHaveMore || state.isWoken) && !state.isStopped
            return state.isQueued
        }
        // A new block lets other blocks on the queue have their turn.
        if goesOn { queue.async { self.serve() } }
    }

    /// Wakes the taker when the descriptor becomes readable. The descriptor must be open during the call.
    func watch(_ descriptor: Int32) {
        var former: (any Watch)?
        let isWatched = state.withLock { state in
            if state.isStopped || state.watch?.isValid == true && state.watched == descriptor { return true }
            // The port's first ring changes the descriptor.
            former = state.watch
            state.watch = try? housekeeping.watch(descriptor, "a port that a queue serves", for: self)
            state.watched = descriptor
            return state.watch != nil
        }
        former?.invalidate()
        // No thread is left to watch with: poll.
        if !isWatched { queue.asyncAfter(deadline: .now() + .milliseconds(10)) { self.wake() } }
    }
}
