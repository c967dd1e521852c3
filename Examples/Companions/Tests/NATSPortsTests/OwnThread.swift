import Dispatch
import Testing

/// Runs each test of a suite on a thread of its own. These tests wait for processes, and would keep the others, and the
/// tasks that they wait for, from the few threads that tasks have.
struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    /// It is each test that gets a thread.
    let isRecursive = true

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(Executor()) { try await function() }
    }

    private final class Executor: TaskExecutor {
        private let queue = DispatchQueue(label: "OwnThread")

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }
}

extension Trait where Self == OwnThread {
    static var ownThread: Self { Self() }
}
