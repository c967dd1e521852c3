import Glibc
import RunLoops
import TestSupport

/// A monitor of a loop that sleeps does nothing at all, and wakes up with the loop.
func watchAnIdleLoop() throws {
    let thread = try RunLoopThread()
    let stalled = Latch()
    let monitor = try StallMonitor(thread.loop, threshold: .milliseconds(10)) { _ in stalled.open() }
    // Each has looked at the other once it is there.
    let deadline = MonotonicInstant.now + .seconds(20)
    var (waits, former) = (waitCounts(), [Int32: Int]())
    while waits != former {
        check(!deadline.hasPassed, "the threads do not come to rest")
        // Rest has no event.
        usleep(50_000)
        (waits, former) = (waitCounts(), waits)
    }
    // Ten times the threshold, and no thread but this one has run. That nothing happens takes time.
    usleep(100_000)
    check(waitCounts() == waits, "\(waitCounts()) waits of threads, and not \(waits)")
    try thread.loop.perform {
        let end = MonotonicInstant.now + .milliseconds(60)
        while !end.hasPassed {}
    }
    check(stalled.wait(until: .now + .seconds(20)), "the stall was not told")
    withExtendedLifetime(monitor) {}
}

/// How often each other thread has given the processor away to wait.
private func waitCounts() -> [Int32: Int] {
    let others = (entries(of: "/proc/self/task") ?? []).compactMap { Int32($0) }.filter { $0 != getpid() }
    return Dictionary(uniqueKeysWithValues: others.map { ($0, waitCount(of: "/proc/self/task/\($0)") ?? 0) })
}
