import Ports
import RunLoopLocks
import RunLoops
import TypedPorts

/// A request that a server has taken from NATS, until its handler has ended.
final class TakenRequest: Sendable {
    let handled: NetworkHandled
    let since = MonotonicInstant.now

    private struct State {
        var hasStarted = false
        var task: Task<Void, Never>?
        var isCancelled = false
        var lastHeard = ContinuousClock.now
        /// The frames of a stream that may be sent without news from the reader; 0 for another request.
        let window: UInt32
        var sent: UInt32 = 0
        var taken: UInt32 = 0
        /// Whether the last frame was sent.
        var hasEnded = false
    }

    private let state: Lock<State>
    /// Set when the stream's reader needs nothing more.
    let isReleased = OneShot<Void>()
    private let hasRoom = Gate()

    init(_ handled: NetworkHandled, window: UInt32?) {
        self.handled = handled
        state = Lock(State(window: window.map { min(max($0, 1), 1024) } ?? 0))
    }

    /// Starts the request's task, which a cancellation cancels. Called once.
    @discardableResult
    func start(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        state.withLock { $0.hasStarted = true }
        // Not under the lock, for which the task would wait.
        let task = Task(operation: body)
        let isCancelled = state.withLock { state in
            state.task = task
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
        return task
    }

    /// Does the work of the request in its task: the present one, or one for a request that has waited for its turn.
    func run(_ body: @escaping @Sendable () async -> Void) async {
        if state.withLock({ $0.hasStarted }) { await body() } else { await start(body).value }
    }

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Whether the asker was not heard of for so long that it counts as dead.
    var isAbandoned: Bool {
        state.withLock { ContinuousClock.now - $0.lastHeard > AskedRequests.patience }
    }

    func cancel() {
        let task = state.withLock { state in
            state.isCancelled = true
            return state.task
        }
        task?.cancel()
    }

    /// The asker needs no more: it has given up, or has all elements.
    func release() {
        let isComplete = state.withLock { $0.hasEnded }
        isReleased.set(())
        if !isComplete { cancel() }
    }

    // MARK: Streams

    private var mayLeave: Bool { state.withLock { $0.sent - $0.taken < $0.window } }

    /// Suspends until another frame may be sent.
    /// - Throws: `CancellationError`.
    nonisolated(nonsending) func room() async throws {
        while !mayLeave {
            hasRoom.close()
            // The reader may have taken some meanwhile.
            if mayLeave { return }
            await hasRoom.wait()
            try Task.checkCancellation()
        }
    }

    /// Sends the next frame. Under the lock, so that the reader never hears of a frame before it comes.
    func send(isLast: Bool = false, _ publish: (UInt32) throws -> Void) throws {
        try state.withLock { state in
            // An end that cannot be sent counts, too: so the reader learns that it is missing.
            if isLast { state.hasEnded = true }
            try publish(state.sent)
            if !isLast { state.sent += 1 }
        }
    }

    /// The asker still waits, and says how many frames it has taken.
    /// - Returns: The number of frames that were sent, and one more after the end.
    func hold(taken: UInt32) -> UInt32 {
        let (sent, hasRoom) = state.withLock { state in
            state.lastHeard = .now
            // A reader cannot have taken what was not sent.
            state.taken = max(state.taken, min(taken, state.sent))
            return (state.sent + (state.hasEnded ? 1 : 0), state.sent - state.taken < state.window)
        }
        if hasRoom { self.hasRoom.open() }
        return sent
    }
}
