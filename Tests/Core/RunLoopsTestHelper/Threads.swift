import Glibc
import RunLoops
import TestSupport

/// The main thread is at home in its loop without having asked for the current one.
func askForMain() throws {
    check(ThreadRunLoop.main.isCurrent, "the main loop is not the main thread's")
    check(try ThreadRunLoop.main.performAndWait { true }, "the closure was not called")
    check(ThreadRunLoop.main === ThreadRunLoop.current, "the main thread has another loop")
}

/// 10,000 threads leave nothing behind, whether they are waited for or let go of.
func startAndStopThreads() throws {
    let threads = threadsAtRest()
    // The first one makes what a process has once.
    try RunLoopThread().run {}
    settle(threads)
    let descriptors = openDescriptors()
    for index in 0..<10_000 {
        let thread = try RunLoopThread()
        if index % 3 == 0 { try thread.loop.perform {} }
        guard index % 2 == 0 else { continue }
        thread.stop()
        check(thread.join(before: .now + .seconds(20)), "thread \(index) has not ended")
    }
    settle(threads)
    check(openDescriptors() == descriptors, "\(openDescriptors()) descriptors, not \(descriptors)")
    // One that has ended, and its loop, can be kept at no cost.
    let kept = try (0..<10).map { _ in try RunLoopThread() }
    for thread in kept { thread.stop() }
    settle(threads)
    check(openDescriptors() == descriptors, "\(openDescriptors() - descriptors) descriptors for 10 threads that ended")
    withExtendedLifetime(kept) {}
    for _ in 0..<10 {
        let thread = try RunLoopThread()
        try thread.loop.add(ThreadRunLoop.Timer(after: .zero) { _ in pthread_exit(nil) })
        thread.join()
    }
    check(openDescriptors() == descriptors, "\(openDescriptors() - descriptors) descriptors of threads that exited")
}

/// Who has no right to it cannot have a thread that gives way less than the others, and is told so.
func askForTooMuch() throws {
    let threads = threadsAtRest()
    // The administrator has the right.
    let user = geteuid()
    if user == 0 { check(seteuid(65534) == 0, "cannot become another user") }
    var none = rlimit()
    // RLIMIT_NICE, which Glibc's module map leaves out.
    check(setrlimit(13, &none) == 0, "the limit cannot be set")
    do {
        _ = try RunLoopThread(niceness: -5)
        fail("the thread was started")
    } catch {
        check(error == .nicenessRefused(-5) && "\(error)".contains("-5"), "\(error)")
    }
    settle(threads)
    _ = try RunLoopThread(niceness: 5)
    if user == 0 { check(seteuid(0) == 0, "cannot become the user again") }
}

/// How many threads there are when others have ended, asked for before there are any.
private func threadsAtRest() -> Int {
    #if THREAD_SANITIZER
        // It starts one of its own with the first.
        liveThreads() + 1
    #else
        liveThreads()
    #endif
}

/// Waits until the process has no more threads than that: one that was let go of ends in its own time.
private func settle(_ threads: Int) {
    check(waitUntil { liveThreads() <= threads }, "\(liveThreads()) threads are left")
}
