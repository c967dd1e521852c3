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
    var (switches, former) = (contextSwitches(), [Int32: String]())
    while switches != former {
        check(!deadline.hasPassed, "the threads do not come to rest")
        usleep(50_000)
        (switches, former) = (contextSwitches(), switches)
    }
    // Ten times the threshold, and no thread but this one has run.
    usleep(100_000)
    check(contextSwitches() == switches, "\(contextSwitches()) switches of threads, and not \(switches)")
    try thread.loop.perform {
        let end = MonotonicInstant.now + .milliseconds(60)
        while !end.hasPassed {}
    }
    check(stalled.wait(until: .now + .seconds(20)), "the stall was not told")
    withExtendedLifetime(monitor) {}
}

/// How often each other thread has given the processor away.
private func contextSwitches() -> [Int32: String] {
    var all: [Int32: String] = [:]
    for id in (entries(of: "/proc/self/task") ?? []).compactMap({ Int32($0) }) where id != getpid() {
        guard let file = fopen("/proc/self/task/\(id)/status", "r") else { continue }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while let read = fgets(&line, 256, file) {
            let text = String(cString: read)
            if text.hasPrefix("voluntary_ctxt_switches") { all[id] = text }
        }
    }
    return all
}
