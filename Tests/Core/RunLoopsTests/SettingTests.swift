import Testing

@testable import RunLoops

/// Settings that a program may read from a file: one out of its range is an error that has the value and the range.
@Suite struct SettingTests {
    @Test(arguments: [0, 15, -1, 1 << 24 + 1, .max]) func `a recorder has room for some events`(_ capacity: Int) throws
    {
        #expect(throws: RunLoopError.invalidLimit(name: "capacity", value: capacity, allowed: 16...1 << 24)) {
            try LoopRecorder(.main, capacity: capacity)
        }
    }

    @Test(arguments: [Duration.zero, .seconds(-1)]) func `a stall takes some time`(_ threshold: Duration) {
        #expect(
            throws: RunLoopError.invalidDuration(
                name: "threshold", value: threshold, allowed: .nanoseconds(1) ... .seconds(Int64.max))
        ) { try StallMonitor(.main, threshold: threshold) { _ in } }
    }

    @Test(arguments: [-21, 20, .max]) func `a nice value that the system does not have is refused`(_ value: Int) async {
        await #expect(throws: RunLoopError.invalidLimit(name: "niceness", value: value, allowed: -20...19)) {
            try await RunLoopThread(niceness: value)
        }
    }

    @Test func `the text of a refused setting has the value and the range`() {
        #expect(
            RunLoopError.invalidLimit(name: "niceness", value: 20, allowed: -20...19).description
                == "niceness cannot be 20: choose -20 to 19")
        #expect(
            RunLoopError.invalidDuration(name: "pollingTime", value: .seconds(1), allowed: .zero ... .milliseconds(1))
                .description == "pollingTime cannot be 1.0 seconds: choose 0.0 seconds to 0.001 seconds")
    }
}
