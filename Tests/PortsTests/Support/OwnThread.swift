import RunLoops
import Testing

/// Runs each test of a suite on a thread of its own. Tests that block would keep the others, and the tasks that they
/// wait for, from the few threads that tasks have.
struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    let isRecursive = true

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(Executor()) { try await function() }
    }

    /// A thread that lasts as long as there is something to run.
    private final class Executor: TaskExecutor {
        private let jobs = Lock<[UnownedJob]?>(nil)

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            let isRunning = jobs.withLock { jobs in
                defer { jobs = (jobs ?? []) + [job] }
                return jobs != nil
            }
            if !isRunning { _ = Helper { self.run() } }
        }

        private func run() {
            while let job = next() { job.runSynchronously(on: asUnownedTaskExecutor()) }
        }

        private func next() -> UnownedJob? {
            jobs.withLock { jobs in
                if jobs?.isEmpty == false { return jobs?.removeFirst() }
                jobs = nil
                return nil
            }
        }
    }
}

extension Trait where Self == OwnThread {
    static var ownThread: Self { Self() }
}
