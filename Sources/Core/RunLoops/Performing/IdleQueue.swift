import DequeModule
import Synchronization

extension ThreadRunLoop {
    /// Tasks for an idle loop, which calls them when it is about to sleep.
    ///
    ///     let idle = try ThreadRunLoop.IdleQueue(in: .main)
    ///     for page in 1...100 { try idle.add { print("draws page", page) } }
    ///
    /// The tasks of one pass have a time budget. When it is used up, the loop goes through another pass, which serves
    /// new events, before the remaining tasks. An empty queue costs one call before each sleep, and no wake-up.
    ///
    /// Tasks keep no mode from being empty. Runs that only poll (a timeout of zero), or inside a task, call no tasks.
    /// Any thread may add and cancel tasks. When the queue is released, the loop calls the remaining tasks; when the thread ends, it does not.
    public final class IdleQueue: Sendable {
        /// Retained by the loop, so the tasks end with the loop's items.
        private weak let tasks: IdleTasks?

        /// Adds a queue to a loop. The budget is for the tasks of one pass. A pass calls one task at least, and interrupts none.
        /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread has ended, and `forked`.
        public init(
            in loop: ThreadRunLoop, modes: [Mode] = [.default], budget: Duration = .milliseconds(4)
        ) throws(RunLoopError) {
            let tasks = IdleTasks(loop)
            self.tasks = tasks
            let observer = Observer(.beforeWaiting, order: .max) { observer, _ in
                tasks.perform(budget: budget, observer)
            }
            for mode in modes { try loop.add(observer, forMode: mode) }
        }

        // No task will be added any more.
        deinit { tasks?.abandon() }

        /// Adds a task behind the others, and wakes the loop if it sleeps. Any thread may call it.
        /// - Returns: A request that can cancel the task.
        /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread has ended.
        @discardableResult
        public func add(_ task: @escaping @Sendable () -> Void) throws(RunLoopError) -> PerformRequest {
            guard let tasks else { throw .loopEnded }
            let request = PerformRequest(task)
            tasks.add(request)
            return request
        }

        /// The number of tasks that wait.
        public var count: Int { tasks?.pending.count ?? 0 }

        /// Cancels all tasks. Any thread may call it.
        public func cancelAll() { tasks?.cancelAll() }
    }
}

private final class IdleTasks: Sendable {
    private struct State {
        /// Some cancelled tasks, too, until their turn.
        var tasks = Deque<ThreadRunLoop.PerformRequest>()
        /// The number of tasks from which on cancelled tasks are removed.
        var many = 64
        var isAbandoned = false
    }

    private let state = Mutex(State())
    private weak let loop: ThreadRunLoop?

    init(_ loop: ThreadRunLoop) { self.loop = loop }

    // The loop has ended.
    deinit { cancelAll() }

    var pending: [ThreadRunLoop.PerformRequest] { state.withLock { Array($0.tasks) }.filter(\.isPending) }

    func add(_ task: ThreadRunLoop.PerformRequest) {
        let isFirst = state.withLock { state in
            state.tasks.append(task)
            if state.tasks.count > state.many {
                state.tasks.removeAll { !$0.isPending }
                state.many = max(64, 2 * state.tasks.count)
            }
            return state.tasks.count == 1
        }
        // With other tasks the loop is awake, or was woken, or sleeps in another mode.
        if isFirst { loop?.wakeUp() }
    }

    func perform(budget: Duration, _ observer: ThreadRunLoop.Observer) {
        // Only the tasks there now, so that events get their turn even if each task adds another.
        let (count, isAbandoned) = state.withLock { ($0.tasks.count, $0.isAbandoned) }
        if count == 0 && isAbandoned { observer.invalidate() }
        if count == 0 { return }
        let deadline = MonotonicInstant.now + budget
        for _ in 0..<count {
            guard let task = state.withLock({ $0.tasks.popFirst() }), task.isPending else { continue }
            task.perform()
            if deadline.hasPassed { break }
        }
        loop?.wakeUp()
    }

    func abandon() { state.withLock { $0.isAbandoned = true } }
    func cancelAll() { for task in pending { task.cancel() } }
}
