import Dispatch
import Glibc
import RunLoops
import Synchronization

/// Has a loop do a few things for another thread, then take a million wake-ups, be idle, and stop.
public func startChores(for loop: ThreadRunLoop) throws -> RunLoopThread {
    let thread = try RunLoopThread(name: "giver")
    try thread.loop.perform {
        do { try doChores(loop) } catch { print("\(error)") }
    }
    return thread
}

private func doChores(_ loop: ThreadRunLoop) throws {
    try loop.performAndWait { print("a block of another thread") }
    let fired = DispatchSemaphore(value: 0)
    try loop.add(.init(after: .milliseconds(10)) { _ in fired.signal() })
    fired.wait()
    print("a timer")
    print("\(wakeUps(1_000_000, loop)) wake-ups, and what each told of was seen")
    // Whatever is left of the wake-ups is over.
    try loop.performAndWait {}
    let before = processorTime()
    usleep(300_000)
    let spent = processorTime() - before
    print(spent < .milliseconds(10) ? "idle: no processor time" : "idle: \(spent)")
    loop.stop()
}

/// Posts pieces of work that the loop learns of by a wake-up each, and returns how many were seen.
private func wakeUps(_ all: Int, _ loop: ThreadRunLoop) -> Int {
    let work = Work()
    _ = try? loop.add(.init(.beforeSources, label: "work") { _, _ in work.see() })
    var (sent, burst) = (0, 1)
    while sent < all {
        // From one to some thousand at a time, so that the loop falls asleep often.
        burst = burst * 31 % 1009 + 1
        for _ in 0..<min(burst, all - sent) {
            work.post()
            loop.wakeUp()
            sent += 1
        }
        let deadline = ContinuousClock.now + .seconds(10)
        while work.count < sent {
            if deadline <= .now { return work.count }
            sched_yield()
        }
    }
    return work.count
}

private final class Work: Sendable {
    private let posted = Atomic(0)
    private let seen = Atomic(0)

    func post() { posted.add(1, ordering: .releasing) }
    func see() { seen.store(posted.load(ordering: .acquiring), ordering: .releasing) }
    var count: Int { seen.load(ordering: .acquiring) }
}

/// What all threads have used.
private func processorTime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
}

/// For a program in C: the chores of the calling thread's loop.
@_cdecl("start_chores")
public func startChores() {
    do {
        // It lives as long as the program.
        _ = Unmanaged.passRetained(try startChores(for: .current))
    } catch {
        print("no chores: \(error)")
    }
}
