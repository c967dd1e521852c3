import Synchronization

extension ThreadRunLoop {
    /// Tasks for the time when a loop has nothing else to do: they are called when it is about to sleep.
    ///
    ///     let idle = ThreadRunLoop.IdleQueue(in: .main)
    ///     for page in pages { idle.add { page.draw() } }
    ///
    /// At a time they have a budget. After that the loop goes through another pass, in which what came meanwhile, and
    /// what the tasks themselves have brought about, gets its turn; then come the tasks that are left. While the queue
    /// is empty it costs the loop one call before it sleeps, and never wakes it.
    ///
    /// Tasks keep no mode from being empty, and runs that only poll (a timeout of zero) never get to them. Inside a
    /// task an inner run serves no others.
    ///
    /// Any thread may add tasks and take them back. What is left when its owner lets go of the queue is still called;
    /// what is left when the loop's thread ends is not.
    public final class IdleQueue: Sendable {
        /// The loop has it, and so its tasks end with the loop's items.
        private weak let core: Core?

        /// Makes a queue, and adds it to a loop.
        ///
        /// - Parameters:
        ///   - loop: Whose thread calls the tasks.
        ///   - modes: The modes in which it does.
        ///   - budget: How long tasks are called at a time. A task that has begun is finished, so one is called in any
        ///     case.
        public init(in loop: ThreadRunLoop, modes: [Mode] = [.default], budget: Duration = .milliseconds(4)) {
            let core = Core(loop)
            self.core = core
            let observer = Observer(.beforeWaiting, order: .max) { observer, _ in
                core.perform(budget: budget, observer)
            }
            for mode in modes { loop.add(observer, forMode: mode) }
        }

        deinit { core?.abandon() }

        /// Adds a task behind the others. Any thread may call it; a loop that sleeps is woken.
        ///
        /// - Parameter task: Called on the loop's thread.
        /// - Returns: A way to take the task back. The task is not pending when the loop's thread has ended.
        @discardableResult
        public func add(_ task: @escaping @Sendable () -> Void) -> PerformRequest {
            let request = PerformRequest()
            core?.add(task, request)
            return request
        }

        /// How many tasks wait to be called.
        public var count: Int { core?.count ?? 0 }

        /// Whether no task waits to be called.
        public var isEmpty: Bool { count == 0 }

        /// Takes every task back. Any thread may call it.
        public func cancelAll() { core?.cancelAll() }
    }
}

/// The tasks of a queue.
private final class Core: Sendable {
    private struct State {
        /// By their numbers, which are below `end`. One that was taken back leaves a gap.
        var tasks: [UInt64: IdleTask] = [:]
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
            let task = IdleTask(body, request, state.end, self)
            request.isMade(of: task)
            defer {
                state.tasks[state.end] = task
                state.end += 1
            }
            return state.tasks.isEmpty
        }
        // Otherwise it is awake, or has been told, or sleeps in a mode where the tasks wait anyway.
        if isFirst { loop?.wakeUp() }
    }

    func perform(budget: Duration, _ observer: ThreadRunLoop.Observer) {
        // Those that are there now: one that adds another each time leaves room for events.
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

    private func next(before end: UInt64) -> IdleTask? {
        state.withLock { state in
            while state.first < end {
                defer { state.first += 1 }
                if let task = state.tasks.removeValue(forKey: state.first) { return task }
            }
            return nil
        }
    }

    func remove(_ number: UInt64) {
        // What the task has captured goes after the lock: it may call back in here.
        let task = state.withLock { $0.tasks.removeValue(forKey: number) }
        withExtendedLifetime(task) {}
    }

    func cancelAll() {
        for task in state.withLock({ $0.tasks.values }) { task.request.cancel() }
    }

    /// Nothing will be added any more.
    func abandon() { state.withLock { $0.isAbandoned = true } }
}

private final class IdleTask: Invalidatable {
    let body: @Sendable () -> Void
    let request: ThreadRunLoop.PerformRequest
    private let number: UInt64
    private weak let core: Core?

    init(
        _ body: @escaping @Sendable () -> Void, _ request: ThreadRunLoop.PerformRequest, _ number: UInt64, _ core: Core
    ) {
        self.body = body
        self.request = request
        self.number = number
        self.core = core
    }

    func invalidate() { core?.remove(number) }
}
