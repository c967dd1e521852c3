import Testing

@testable import Activation

/// When a service that has ended is started again.
@Suite struct StartPolicyTests {
    private let start = ContinuousClock.now

    @Test func `a service that ends in order may be started at once`() {
        var policy = StartPolicy()
        for _ in 0..<100 { #expect(policy.ended(.orderly, at: start) == nil) }
    }

    @Test func `a service that does not start waits longer each time, up to a minute`() {
        var policy = StartPolicy()
        let pauses = (0..<8).map { _ in policy.ended(.notStarted("no"), at: start)?.pause }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60].map { .seconds($0) })
        policy.started()
        #expect(policy.ended(.notStarted("no"), at: start)?.pause == .seconds(1))
    }

    @Test func `six crashes in ten seconds are too many, and each reason is named once`() {
        var policy = StartPolicy()
        for number in 1...5 {
            #expect(policy.ended(.crashed("\(number / 3)", output: "!"), at: start + .seconds(number)) == nil)
            policy.started()
        }
        let failure = policy.ended(.crashed("1", output: "; 6"), at: start + .seconds(6))
        #expect(failure?.reason == "it has ended too often, 6 times in 10.0 seconds: 0; 1; 6")
        // They are counted anew.
        #expect(policy.ended(.crashed("7"), at: start + .seconds(7)) == nil)
    }

    @Test func `crashes now and then are fine`() {
        var policy = StartPolicy()
        for number in 1...100 { #expect(policy.ended(.crashed(""), at: start + .seconds(3 * number)) == nil) }
    }
}
