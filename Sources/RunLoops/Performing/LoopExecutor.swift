// A loop's thread as an executor, of an actor or of tasks that prefer it. Work is done in the common modes, among the
// blocks and in their order, so that a hop to the loop from its own thread is a place in a list.

/// A loop can be the executor of actors, which then live on its thread:
///
///     actor Store {
///         nonisolated let loop: ThreadRunLoop
///         nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
///     }
///
/// In callbacks of the loop `assumeIsolated` holds for them. A call from one actor of a loop to another waits for
/// nothing.
extension ThreadRunLoop: SerialExecutor {
    /// Takes in a piece of work of an actor. Called by Swift's concurrency, on any thread.
    ///
    /// After the loop's thread has ended, the work is done all the same, in order, on one thread that the library keeps
    /// for loops that are gone.
    public func enqueue(_ job: consuming ExecutorJob) { queue(Job(job: UnownedJob(job), preference: nil)) }

    /// Whether the caller is on the executor already. Called by Swift's concurrency.
    public func isIsolatingCurrentContext() -> Bool? {
        isCurrent || (hasEnded && Self.orphanedJobThread.loop.isCurrent)
    }

    /// Stops the process unless the caller is on the executor. Called by Swift's concurrency.
    public func checkIsolated() {
        contract(isIsolatingCurrentContext() == true, "not on the thread of the actor's run loop")
    }

    /// The loop's thread for tasks that prefer it; see ``TaskPreference``.
    public var taskExecutor: TaskPreference { TaskPreference(loop: self) }

    /// Has tasks live on a loop's thread, apart from what they call of actors that live elsewhere:
    ///
    ///     await withTaskExecutorPreference(thread.loop.taskExecutor) { await work() }
    public final class TaskPreference: TaskExecutor {
        private let loop: ThreadRunLoop

        fileprivate init(loop: ThreadRunLoop) { self.loop = loop }

        /// Takes in a piece of a task's work. Called by Swift's concurrency, on any thread.
        public func enqueue(_ job: consuming ExecutorJob) {
            loop.queue(Job(job: UnownedJob(job), preference: self))
        }
    }

    /// A piece of an actor's or a task's work, and on whose behalf it is done: Swift hops once more for the wrong one.
    struct Job {
        let job: UnownedJob
        /// The preference it was queued through; nil for an actor's.
        let preference: TaskPreference?
    }

    private func queue(_ job: Job) {
        switch blocks.append(job) {
        case .loopEnded: orphan(job)
        // Waking the loop from its own thread is a note that it must not go to sleep.
        case .queuedFirst: wakeUp()
        case .queued, .modeUnknown: break
        }
    }

    func run(_ job: Job) {
        if let preference = job.preference {
            job.job.runSynchronously(on: preference.asUnownedTaskExecutor())
        } else {
            job.job.runSynchronously(on: asUnownedSerialExecutor())
        }
    }

    /// Has work done that the loop is no longer there for.
    func orphan(_ job: Job) {
        Self.orphanedJobThread.loop.perform { self.run(job) }
    }

    private static let orphanedJobThread: RunLoopThread = {
        do {
            return try RunLoopThread(name: "orphaned tasks")
        } catch {
            contractBroken("the work of a run loop that has ended needs a thread: \(error)")
        }
    }()
}
