/// A loop can be the executor of actors, which then live on its thread: their `unownedExecutor` is the loop's
/// `asUnownedSerialExecutor()`. Jobs run in the common modes, among the blocks. In callbacks of the loop
/// `assumeIsolated` holds for these actors. Calls among them do not change threads.
extension ThreadRunLoop: SerialExecutor {
    /// Queues an actor's job, for Swift's concurrency. Swift lets no executor refuse a job, so the jobs of an ended loop
    /// run in order on a thread of their own.
    public func enqueue(_ job: consuming ExecutorJob) {
        queue(.actorJob(UnownedJob(job), asUnownedSerialExecutor()))
    }

    /// Whether the caller is on the executor. Called by Swift's concurrency.
    public func isIsolatingCurrentContext() -> Bool? {
        isCurrent || (hasEnded && Self.orphanedJobThread.loop.isCurrent)
    }

    /// Stops the process unless the caller is on the executor. Called by Swift's concurrency.
    public func checkIsolated() {
        contract(isIsolatingCurrentContext() == true, "not on the thread of the actor's run loop")
    }

    /// The loop's thread for tasks that prefer it; see ``TaskPreference``.
    public var taskExecutor: TaskPreference { TaskPreference(loop: self) }

    /// Runs tasks on a loop's thread, except their calls of actors with another executor. It is for
    /// `withTaskExecutorPreference`.
    public final class TaskPreference: TaskExecutor {
        private let loop: ThreadRunLoop

        fileprivate init(loop: ThreadRunLoop) { self.loop = loop }

        /// Queues a task's job. Called by Swift's concurrency, on any thread.
        public func enqueue(_ job: consuming ExecutorJob) { loop.queue(.taskJob(UnownedJob(job), self)) }
    }

    private func queue(_ job: BlockQueue.Work) {
        switch blocks.append(job, orphan: Self.performOrphaned) {
        case .loopEnded: Self.performOrphaned(job, of: self)
        // From the loop's own thread this keeps the loop from going to sleep.
        case .queuedFirst: wakeUp()
        case .queued, .modeUnknown: break
        }
    }

    @Sendable private static func performOrphaned(_ job: BlockQueue.Work, of loop: LoopCore) {
        // With a wake-up also from that thread itself, because its loop would go to sleep.
        orphanedJobThread.loop.queue({ withExtendedLifetime(loop) { job.call() } }, [.default], wakes: true)
    }

    private static let orphanedJobThread: RunLoopThread = {
        do {
            return try RunLoopThread(name: "orphaned tasks")
        } catch {
            contractBroken("the jobs of a run loop that has ended need a thread: \(error)")
        }
    }()
}
