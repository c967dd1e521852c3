import Glibc
import Ports
import RunLoops
import TestSupport

private actor Outcome {
    private(set) var others: [String] = []
    private(set) var count = 0

    func note(_ error: any Error) {
        count += 1
        guard case PortError.cannotConnect = error else { return others.append("\(error)") }
    }
}

/// Looks a name up in many tasks at once, whose owner does not answer: other tasks go on meanwhile, and no thread is made
/// for it. Reports the longest pause of another task, in milliseconds, and how many threads there were at most.
func lookUpInVain(_ name: String, tasks count: Int) -> Never {
    Task.detached {
        let outcome = Outcome()
        let deadline = ContinuousClock.now + .seconds(2)
        for number in 0..<count {
            Task.detached {
                do {
                    if number % 2 == 0 {
                        _ = try await PortNameServer.shared.port(forName: name, before: deadline)
                    } else {
                        _ = try await RemoteMessagePort(name: name, before: deadline)
                    }
                    fail("found")
                } catch {
                    await outcome.note(error)
                }
            }
        }
        var (longest, threads) = (Duration.zero, 0)
        while await outcome.count < count {
            let begin = ContinuousClock.now
            try? await Task.sleep(for: .milliseconds(20))
            longest = max(longest, begin.duration(to: .now))
            threads = max(threads, liveThreads())
        }
        guard await outcome.others.isEmpty else { fail("\(await outcome.others)") }
        let figures = [UInt32(longest / .milliseconds(1)), UInt32(threads)]
        try await PortNameServer.shared.port(forName: "test").send(
            MachPort.Message(id: 2, [.bytes(figures.flatMap { number in withUnsafeBytes(of: number) { Array($0) } })]))
        exit(0)
    }
    while true { pause() }
}
