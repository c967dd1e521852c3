import OwnThread
import RunLoopLocks
import TestSupport
import Testing

@testable import Workers

/// Which children are restarted, and when.
@Suite(.fewAtATime) struct SupervisorTests {
    // MARK: As values

    @Test(arguments: [
        (Supervisor.Strategy.oneForOne, [], [1]), (.oneForAll, [3, 2, 0], [0, 1, 2, 3]),
        (.restForOne, [3, 2], [1, 2, 3]),
    ]) func `the strategy says who is stopped, from the last on, and who is started, from the first on`(
        strategy: Supervisor.Strategy, stops: [Int], starts: [Int]
    ) {
        var plan = SupervisorPlan(strategy, [.permanent, .permanent, .permanent, .permanent])
        #expect(plan.ended(1, isFailure: true) == .init(stops: stops, starts: starts))
        #expect(plan.running == [0, 1, 2, 3])
    }

    @Test func `a child is started again as its kind says`() {
        for (restart, isFailure, isRestarted) in [
            (Supervisor.Restart.permanent, true, true), (.permanent, false, true), (.transient, true, true),
            (.transient, false, false), (.temporary, true, false), (.temporary, false, false),
        ] {
            var plan = SupervisorPlan(.oneForOne, [restart])
            #expect((plan.ended(0, isFailure: isFailure) != nil) == isRestarted, "\(restart)")
            #expect(plan.running.isEmpty == !isRestarted)
        }
    }

    @Test func `those who have ended in order stay so, and temporary ones that are stopped with others, too`() {
        var plan = SupervisorPlan(.oneForAll, [.transient, .temporary, .permanent])
        #expect(plan.ended(0, isFailure: false) == nil)
        #expect(plan.ended(2, isFailure: true) == .init(stops: [1], starts: [2]))
        #expect(plan.running == [2])
    }

    // MARK: With tasks

    private enum Failure: Error { case wanted }

    /// What children have done.
    private struct Story: Sendable {
        private let events = Shared<[String]>([])
        var all: [String] { events.withLock { $0 } }
        func tell(_ event: String) { events.withLock { $0.append(event) } }

        /// A child that lives until it is stopped, or fails at its first starts.
        func child(_ name: String, failures: Int = 0, restart: Supervisor.Restart = .permanent) -> Supervisor.Child {
            let starts = Shared(0)
            return Supervisor.Child(name, restart: restart) { (isReady: @escaping @Sendable () -> Void) in
                let number = starts.withLock { starts in
                    starts += 1
                    return starts
                }
                tell("\(name) starts")
                isReady()
                if number <= failures {
                    // When all have started.
                    _ = await waitUntil { all.filter { $0 == "c starts" }.count >= number }
                    tell("\(name) fails")
                    throw Failure.wanted
                }
                try? await Task.sleep(for: .seconds(1000))
                tell("\(name) ends")
            }
        }
    }

    @Test(arguments: [
        (Supervisor.Strategy.oneForOne, ["b starts"]),
        (.restForOne, ["c ends", "b starts", "c starts"]),
        (.oneForAll, ["c ends", "a ends", "a starts", "b starts", "c starts"]),
    ]) func `children start in their order, are restarted, and stop in the reverse order`(
        strategy: Supervisor.Strategy, restarts: [String]
    ) async throws {
        let story = Story()
        let supervisor = Supervisor(strategy) {
            story.child("a")
            story.child("b", failures: 1)
            story.child("c")
        }
        let running = Task { try await supervisor.run() }
        let events = ["a starts", "b starts", "c starts", "b fails"] + restarts
        #expect(await waitUntil { story.all.count >= events.count })
        await #expect(throws: SupervisorError.isRunning) { try await supervisor.run() }
        running.cancel()
        try await running.value
        #expect(story.all == events + ["c ends", "b ends", "a ends"])
    }

    @Test func `too many ends are an error, with the reasons, and all are stopped`() async throws {
        let story = Story()
        let supervisor = Supervisor(.oneForOne, intensity: RestartIntensity(most: 1, in: .seconds(60))) {
            story.child("c")
            Supervisor.Child("x") { throw Failure.wanted }
        }
        let error = await #expect(throws: SupervisorError.self) { try await supervisor.run() }
        #expect(error == .failed(reasons: ["x: wanted", "x: wanted"]))
        #expect(story.all == ["c starts", "c ends"])
    }

    @Test func `a supervisor whose children have all ended in order has ended, and may run again`() async throws {
        let count = Shared(0)
        let supervisor = Supervisor {
            Supervisor.Child("one", restart: .transient) { count.withLock { $0 += 1 } }
            Supervisor.Child("other", restart: .temporary) {
                count.withLock { $0 += 1 }
                throw Failure.wanted
            }
        }
        try await supervisor.run()
        try await supervisor.run()
        #expect(count.withLock { $0 } == 4)
    }

    @Test func `a supervisor restarts another whose children end too often`() async throws {
        let (story, starts) = (Story(), Shared(0))
        let inner = Supervisor(intensity: RestartIntensity(most: 0, in: .seconds(60))) {
            Supervisor.Child("child") {
                let isFirst = starts.withLock { starts in
                    starts += 1
                    return starts == 1
                }
                if isFirst { throw Failure.wanted }
                story.tell("runs")
                try await Task.sleep(for: .seconds(1000))
            }
        }
        let outer = Supervisor { Supervisor.Child("inner", inner) }
        let running = Task { try await outer.run() }
        #expect(await waitUntil { story.all == ["runs"] })
        running.cancel()
        try await running.value
        #expect(starts.withLock { $0 } == 2)
    }
}
