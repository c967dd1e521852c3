import RunLoopLocks
import RunLoops

/// Hands values of tasks to a handler on a thread's loop, in their order. Keeps the loop's mode from being empty until
/// the last value, and ends with the loop's thread.
///
/// A nested run inside the handler gets the values that follow, because each is taken off the list before its call.
final class LoopDelivery<Value: Sendable>: Sendable {
    private struct State {
        var waiting: [Value] = []
        var hasLast = false
        var isOver = false
        var producer: CheckedContinuation<Void, Never>?
        var source: ThreadRunLoop.Source0?
        var task: Task<Void, Never>?
    }

    private let loop: ThreadRunLoop
    private let state = Lock(State())

    /// The number of values that wait for the loop before their task has to wait.
    private static var limit: Int { 64 }

    /// - Throws: `RunLoopError` when the loop's thread has ended, or the process is a forked child.
    init(
        in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode, label: String,
        _ handler: @escaping @Sendable (Value) -> Void
    ) throws(RunLoopError) {
        self.loop = loop
        // The source, and with it the loop, keeps the delivery until the end.
        let source = ThreadRunLoop.Source0(label: label, cancel: { _, _ in self.end() }) { self.deliver(handler) }
        state.withLock { $0.source = source }
        do throws(RunLoopError) {
            try loop.add(source, forMode: mode)
        } catch {
            end()
            throw error
        }
    }

    var isOver: Bool { state.withLock { $0.isOver } }

    /// Starts the task that makes the values. The end of the delivery cancels the task.
    func start(_ body: @escaping @Sendable () async -> Void) {
        let task = Task { await body() }
        let isOver = state.withLock { state in
            if !state.isOver { state.task = task }
            return state.isOver
        }
        if isOver { task.cancel() }
    }

    /// Adds a value, and waits while many wait for the loop.
    func add(_ value: Value, isLast: Bool = false) async {
        let source = state.withLock { state -> ThreadRunLoop.Source0? in
            guard !state.isOver, !state.hasLast else { return nil }
            state.waiting.append(value)
            state.hasLast = isLast
            return state.source
        }
        guard let source else { return }
        source.signal()
        loop.wakeUp()
        await withCheckedContinuation { continuation in
            let mustWait = state.withLock { state in
                let mustWait = state.waiting.count >= Self.limit && !state.isOver
                if mustWait { state.producer = continuation }
                return mustWait
            }
            if !mustWait { continuation.resume() }
        }
    }

    /// Stops calling the handler, and cancels the task. A call in progress on another thread goes on.
    func end() {
        let former = state.withLock { state in
            let former = state
            state = State()
            state.isOver = true
            return former
        }
        former.task?.cancel()
        former.producer?.resume()
        former.source?.invalidate()
    }

    private func deliver(_ handler: (Value) -> Void) {
        // A pass calls the handler for the values there now, so that the loop's other items get their turn.
        let count = state.withLock { $0.waiting.count }
        for _ in 0..<count {
            var producer: CheckedContinuation<Void, Never>?
            var rest: ThreadRunLoop.Source0?
            let (value, isLast) = state.withLock { state -> (Value?, Bool) in
                guard !state.waiting.isEmpty else { return (nil, false) }
                let value = state.waiting.removeFirst()
                if state.waiting.count < Self.limit / 2 { producer = state.producer.take() }
                if !state.waiting.isEmpty { rest = state.source }
                return (value, state.hasLast && state.waiting.isEmpty)
            }
            producer?.resume()
            guard let value else { return }
            if isLast { end() }
            // This call has consumed the earlier signals, so a nested run in the handler needs a new one for the rest.
            rest?.signal()
            handler(value)
        }
        // Values that came meanwhile have signalled the source.
    }
}
