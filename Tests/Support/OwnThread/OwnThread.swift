import RunLoopLocks
import RunLoops
import TestSupport
import Testing

/// Runs a few tests of a suite at a time, for which their deadlines are made, each on a thread of its own. Tests that block
/// would keep the others, and the tasks that they wait for, from the few threads that tasks have.
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    /// The use of most of a test's time. Each kind has turns of its own.
    enum Time {
        case work
        /// It sleeps, and leaves the processors to others.
        case sleep
        /// It waits for other processes as a task, which needs no thread of its own.
        case tasks
    }

    let time: Time

    /// It is each test that gets a thread.
    public let isRecursive = true

    /// Runs a test on a thread that lasts as long as there is something to run.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        // A test's own trait counts in place of its suite's.
        let last = test.traits.compactMap { $0 as? OwnThread }.last
        guard last == nil || last?.time == time else { return try await function() }
        OwnDirectory.prepare()
        await slots.take()
        let result = await withTaskExecutorPreference(time == .tasks ? nil : Executor()) {
            do {
                return Result<Void, any Error>.success(try await function())
            } catch {
                return .failure(error)
            }
        }
        await slots.give()
        try result.get()
    }

    private static let (workers, sleepers, tasks) = (Slots(4), Slots(4), Slots(4))

    private var slots: Slots {
        switch time {
        case .work: Self.workers
        case .sleep: Self.sleepers
        case .tasks: Self.tasks
        }
    }

    private actor Slots {
        private var free: Int
        private var waiting: [CheckedContinuation<Void, Never>] = []

        init(_ count: Int) { free = count }

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
    public static var ownThread: Self { Self(time: .work) }
    /// Each test has a thread of its own, on which it mostly sleeps.
    public static var ownSleepingThread: Self { Self(time: .sleep) }
    /// A few tests run at a time, as tasks that wait for other processes.
    public static var fewAtATime: Self { Self(time: .tasks) }
}
