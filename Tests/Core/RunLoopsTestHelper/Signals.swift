import CRunLoopShims
import Glibc
import RunLoops
import Synchronization
import TestSupport

/// Signal handlers stop and wake a loop, whatever the threads that they interrupt have locked.
func stopALoopInSignalHandlers() throws {
    let loop = ThreadRunLoop.main
    Handler.loop = loop
    // The handler must not be the first to ask for it.
    _ = Handler.calls.load(ordering: .relaxed)
    var action = sigaction()
    action.__sigaction_handler.sa_handler = { _ in Handler.handle() }
    check(sigaction(SIGUSR1, &action, nil) == 0, "no handler")
    try loop.add(ThreadRunLoop.Source0 {})

    let all = 100_000
    let isOver = Shared(false)
    let other = Helper {
        let timer = signalTimer()
        while !isOver.withLock({ $0 }) { changeItems(of: loop) }
        timer_delete(timer)
    }
    let watcher = Helper {
        let isDone = waitUntil { Handler.calls.load(ordering: .relaxed) >= all }
        check(isDone, "hangs after \(Handler.calls.load(ordering: .relaxed)) signals")
    }
    let timer = signalTimer()
    while Handler.calls.load(ordering: .relaxed) < all {
        changeItems(of: loop)
        // The stops end it.
        _ = try loop.runInMode(seconds: 1)
        // In this mode the passes take turns with nobody.
        _ = try loop.runInMode(seconds: 0)
    }
    timer_delete(timer)
    isOver.withLock { $0 = true }
    watcher.join()
    other.join()

    // A signal to another thread ends a sleep.
    let sender = Helper {
        waitUntil { loop.isWaiting }
        raise(SIGUSR1)
    }
    check(try loop.runInMode(seconds: 60) == .stopped, "the run was not stopped")
    sender.join()
}

private enum Handler {
    static let calls = Atomic(0)
    // Set before the handler is.
    nonisolated(unsafe) static var loop: ThreadRunLoop?

    static func handle() {
        loop?.stop()
        loop?.wakeUp()
        calls.add(1, ordering: .relaxed)
    }
}

private func changeItems(of loop: ThreadRunLoop) {
    for _ in 0..<10 {
        let timer = ThreadRunLoop.Timer(after: .seconds(3600)) { _ in }
        _ = try? loop.add(timer)
        loop.remove(timer)
    }
}

/// Interrupts the calling thread every 20 µs.
private func signalTimer() -> timer_t? {
    var event = sigevent()
    event.sigev_notify = 4  // SIGEV_THREAD_ID
    event.sigev_signo = SIGUSR1
    event._sigev_un._tid = crl_thread_id()
    var timer: timer_t?
    check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "no timer")
    let interval = timespec(tv_sec: 0, tv_nsec: 20_000)
    var times = itimerspec(it_interval: interval, it_value: interval)
    check(timer_settime(timer, 0, &times, nil) == 0, "the timer does not start")
    return timer
}
