import RunLoopLocks
import RunLoops
import TestSupport
import Testing

/// Runs each test of a suite on a thread of its own. Tests that block would keep the others, and the tasks that they
/// wait for, from the few threads that tasks have.
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    /// It is each test that gets a thread.
    public let isRecursive = true

    /// Runs a test on a thread that lasts as long as there is something to run.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        OwnDirectory.prepare()
        await Self.slots.take()
        let result = await withTaskExecutorPreference(Executor()) {
            do {
                return Result<Void, any Error>.success(try await function())
            } catch {
                return .failure(error)
            }
        }
        await Self.slots.give()
        try result.get()
    }

    private static let slots = Slots()

    /// So many tests run at a time: their deadlines are made for that.
    private actor Slots {
        private var free = 4
        private var waiting: [CheckedContinuation<Void, Never>] = []

        func take() async {
            if free > 0 { return free -= 1 }
            await withCheckedContinuation { waiting.append($0) }
        }

        func give() {
            if waiting.isEmpty { free += 1 } else { waiting.removeFirst().resume() }
        }
    }

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
    /// Each test has a thread of its own.
    public static var ownThread: Self { Self() }
}
