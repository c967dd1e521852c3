import Synchronization

extension ThreadRunLoop {
    /// Tasks for an idle loop: the loop calls them when it is about to sleep.
    ///
    ///     let idle = ThreadRunLoop.IdleQueue(in: .main)
    ///     for page in pages { idle.add { page.draw() } }
    ///
    /// The tasks of one pass have a time budget. When it is used up, the loop goes through another pass, which serves
    /// new events, before the remaining tasks. An empty queue costs the loop one call before each sleep, and never
    /// wakes it.
    ///
    /// Tasks keep no mode from being empty. Runs that only poll (a timeout of zero), or inside a task, call no tasks.
    ///
    /// Any thread may add and cancel tasks. Tasks left when the queue's owner releases it are still called; tasks left
    /// when the loop's thread ends are not.
    public final class IdleQueue: Sendable {
        /// Retained by the loop, so the tasks end with the loop's items.
        private weak let tasks: IdleTasks?

        /// Makes a queue, and adds it to a loop. The budget is the time for the tasks of one pass: at least one task is
        /// called, and no task is interrupted.
        public init(in loop: ThreadRunLoop, modes: [Mode] = [.default], budget: Duration = .milliseconds(4)) {
            let tasks = IdleTasks(loop)
            self.tasks = tasks
            let observer = Observer(.beforeWaiting, order: .max) { observer, _ in
                tasks.perform(budget: budget, observer)
            }
            for mode in modes { loop.add(observer, forMode: mode) }
        }

        // No task will be added any more.
        deinit { tasks?.abandon() }

        /// Adds a task behind the others, and wakes the loop if it sleeps. Any thread may call it.
        /// - Returns: A request that can cancel the task. It is not pending when the loop's thread has ended.
        @discardableResult
        public func add(_ task: @escaping @Sendable () -> Void) -> PerformRequest {
            let request = PerformRequest()
            tasks?.add(task, request)
            return request
        }

        /// The number of tasks that wait.
        public var count: Int { tasks?.count ?? 0 }

        /// Whether no task waits.
        public var isEmpty: Bool { count == 0 }

        /// Cancels all tasks. Any thread may call it.
        public func cancelAll() { tasks?.cancelAll() }
    }
}

private final class IdleTasks: RequestHolder {
    private typealias Task = (body: @Sendable () -> Void, request: ThreadRunLoop.PerformRequest)

    private struct State {
        /// By number, below `end`. A cancelled task leaves a gap.
        var tasks: [UInt64: Task] = [:]
        var first: UInt64 = 0
        var end: UInt64 = 0
        var isAbandoned = false
    }

    private let state = Mutex(State())
    private weak let loop: ThreadRunLoop?

    init(_ loop: ThreadRunLoop) { self.loop = loop }

    var count: Int { state.withLock { $0.tasks.count } }

    func add(_ body: @escaping @Sendable () -> Void, _ request: ThreadRunLoop.PerformRequest) {
        let isFirst = state.withLock { state in
            request.isHeld(by: self, number: state.end)
            state.tasks[state.end] = (body, request)
            state.end += 1
            return state.tasks.count == 1
        }
        // With other tasks the loop is awake, or was woken, or sleeps in another mode.
        if isFirst { loop?.wakeUp() }
    }

    func perform(budget: Duration, _ observer: ThreadRunLoop.Observer) {
        // Only the tasks there now: events get their turn even if each task adds another.
        let (isEmpty, end, isAbandoned) = state.withLock { ($0.tasks.isEmpty, $0.end, $0.isAbandoned) }
        if isEmpty && isAbandoned { observer.invalidate() }
        if isEmpty { return }
        let deadline = MonotonicInstant.now + budget
        while let task = next(before: end) {
            task.request.perform(task.body)
            if deadline.hasPassed { break }
        }
        loop?.wakeUp()
    }

    private func next(before end: UInt64) -> Task? {
        state.withLock { state in
            while state.first < end {
                defer { state.first += 1 }
                if let task = state.tasks.removeValue(forKey: state.first) { return task }
            }
            return nil
        }
    }

    func release(_ number: UInt64) {
        // Released after the lock: what the task has captured may call back into the queue.
        _ = state.withLock { $0.tasks.removeValue(forKey: number) }
    }

    func abandon() { state.withLock { $0.isAbandoned = true } }
    func cancelAll() { for task in state.withLock({ $0.tasks.values }) { task.request.cancel() } }
}
