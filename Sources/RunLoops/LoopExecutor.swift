import Synchronization

// A loop's thread as an executor: of an actor, or of tasks that prefer it. Work is done in the common modes, among the
// blocks and in their order, so that a hop to the loop from its own thread is a place in a list.
//
//     actor Store {
//         nonisolated let loop: ThreadRunLoop
//         nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
//     }
//     await withTaskExecutorPreference(thread.loop) { await work() }
extension ThreadRunLoop: SerialExecutor, TaskExecutor {
    /// Takes in a piece of a task's work. Called by Swift's concurrency, on any thread.
    ///
    /// After the loop's thread has ended, the work is done all the same, in order, on one thread that the library keeps
    /// for loops that are gone.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        switch blocks.append(job) {
        case .loopEnded: orphan(job)
        // Waking the loop from its own thread is a note that it must not go to sleep.
        case .queuedFirst: wakeUp()
        case .queued, .modeUnknown: break
        }
    }

    /// Whether the caller is on the executor already. Called by Swift's concurrency.
    public func isIsolatingCurrentContext() -> Bool? { isCurrent || (hasEnded && Self.orphanage.loop.isCurrent) }

    /// Stops the process unless the caller is on the executor. Called by Swift's concurrency.
    public func checkIsolated() {
        precondition(isIsolatingCurrentContext() == true, "not on the thread of the actor's run loop")
    }

    func run(_ job: UnownedJob) {
        job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
    }

    /// Has work done that the loop is no longer there for.
    func orphan(_ job: UnownedJob) {
        Self.orphanage.loop.perform { self.run(job) }
    }

    private static let orphanage: RunLoopThread = {
        do {
            return try RunLoopThread(name: "orphaned tasks")
        } catch {
            preconditionFailure("the work of a run loop that has ended needs a thread: \(error)")
        }
    }()
}
