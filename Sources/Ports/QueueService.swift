import Dispatch
import RunLoops
import Synchronization

/// A dispatch queue that handles a port's messages, one at a time. The housekeeping thread's loop watches for it.
///
/// Queue and port keep each other until the port is invalid or the queue is taken away.
final class QueueService: Waiter {
    private let port: MachPort
    private let queue: DispatchQueue

    private struct State {
        /// Whether a block of ours is on the queue.
        var isQueued = false
        /// Whether there may be something since that block began.
        var isTold = false
        var isStopped = false
        var watch: ThreadRunLoop.Source1?
    }

    private let state = Mutex(State())

    init(_ port: MachPort, _ queue: DispatchQueue) {
        self.port = port
        self.queue = queue
    }

    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Nothing more is handled on the queue, but what is in hand.
    func stop() {
        let watch = state.withLock { state in
            state.isStopped = true
            defer { state.watch = nil }
            return state.watch
        }
        watch?.invalidate()
    }

    func wake() {
        let isFirst = state.withLock { state in
            state.isTold = true
            guard !state.isQueued, !state.isStopped else { return false }
            state.isQueued = true
            return true
        }
        if isFirst { queue.async { self.serve() } }
    }

    private func serve() {
        state.withLock { $0.isTold = false }
        let mayHaveMore = port.serve(self)
        let goesOn = state.withLock { state in
            state.isQueued = (mayHaveMore || state.isTold) && !state.isStopped
            return state.isQueued
        }
        // Others on the queue get their turn.
        if goesOn { queue.async { self.serve() } }
    }

    /// Tells when there is something. The descriptor must be open during the call.
    func watch(_ descriptor: Int32) {
        guard state.withLock({ $0.watch?.isValid != true && !$0.isStopped }) else { return }
        let source = ThreadRunLoop.Source1(descriptor: descriptor, label: "a port that a queue serves") {
            [weak self] turn in
            turn.source.invalidate()
            self?.wake()
            return true
        }
        guard let loop = try? PortProcess.current.housekeepingLoop(), (try? loop.add(source)) != nil else {
            // No descriptor is left to watch with: it has to do without until there is.
            return queue.asyncAfter(deadline: .now() + .milliseconds(10)) { self.wake() }
        }
        let isStopped = state.withLock { state in
            if !state.isStopped { state.watch = source }
            return state.isStopped
        }
        if isStopped { source.invalidate() }
    }
}
