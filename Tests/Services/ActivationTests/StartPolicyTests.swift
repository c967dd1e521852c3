import Testing

@testable import Activation

/// When a service that has ended is started again.
@Suite struct StartPolicyTests {
    private let start = ContinuousClock.now

    @Test func `a service that ends in order may be started at once`() {
        var policy = StartPolicy()
        for _ in 0..<100 { #expect(policy.ended(.orderly, after: .zero, at: start) == nil) }
    }

    @Test func `a service that does not start waits longer each time, up to a minute`() {
        var policy = StartPolicy()
        let pauses = (0..<8).map { _ in policy.ended(.notStarted("no"), after: .seconds(60), at: start)?.pause }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60].map { .seconds($0) })
        _ = policy.ended(.orderly, after: .zero, at: start)
        #expect(policy.ended(.notStarted("no"), after: .zero, at: start)?.pause == .seconds(1))
    }

    @Test func `a service that gives its port back without taking what waits fails from the second time on`() {
        var policy = StartPolicy()
        #expect(policy.ended(.unused, after: .zero, at: start) == nil)
        let failure = policy.ended(.unused, after: .zero, at: start)
        #expect(failure?.reason == "it gives its port back without taking the message that waits")
        #expect(failure?.pause == .seconds(1))
        let pauses = (0..<3).map { _ in policy.ended(.unused, after: .zero, at: start)?.pause }
        #expect(pauses == [2, 4, 8].map { .seconds($0) })
        #expect(policy.ended(.orderly, after: .zero, at: start) == nil)
        #expect(policy.ended(.unused, after: .zero, at: start) == nil)
    }

    @Test func `a service that goes on crashing waits longer each time, unless it has worked for a while`() {
        var (policy, time) = (StartPolicy(), start)
        /// The pause after six crashes.
        func crash(after life: Duration) -> Duration? {
            for _ in 0..<5 { #expect(policy.ended(.crashed(""), after: .zero, at: time) == nil) }
            let pause = policy.ended(.crashed(""), after: life, at: time)?.pause
            time += .seconds(60)
            return pause
        }
        #expect((0..<4).map { _ in crash(after: .zero) } == [1, 2, 4, 8].map { .seconds($0) })
        #expect(crash(after: .seconds(10)) == .seconds(1))
    }

    @Test func `six crashes in ten seconds are too many, and each reason is named once`() {
        var policy = StartPolicy()
        for number in 1...5 {
            let end = ServiceEnd.crashed("\(number / 3)", output: "!")
            #expect(policy.ended(end, after: .zero, at: start + .seconds(number)) == nil)
        }
        let failure = policy.ended(.crashed("1", output: "; 6"), after: .zero, at: start + .seconds(6))
        #expect(failure?.reason == "it has ended too often, 6 times in 10.0 seconds: 0; 1; 6")
        // They are counted from there on.
        #expect(policy.ended(.crashed("7"), after: .zero, at: start + .seconds(7)) == nil)
    }

    @Test func `crashes now and then are fine`() {
        var policy = StartPolicy()
        for number in 1...100 {
            #expect(policy.ended(.crashed(""), after: .zero, at: start + .seconds(3 * number)) == nil)
        }
    }
}
