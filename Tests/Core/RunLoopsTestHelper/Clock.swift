import CoreFoundation
import Foundation
import Glibc
import RunLoops
import TestClock
import TestSupport

/// The wall clock is set while a loop sleeps: timers and the end of a run, on Foundation's loop and on ours, come when
/// they would have come.
func setTheClock() throws {
    let before = CFAbsoluteTimeGetCurrent()
    test_clock_set(3600)
    check(CFAbsoluteTimeGetCurrent() - before > 3000, "Foundation does not see that the clock was set")
    let delay = 0.1
    for jump in [Int64(3600), -3600] {
        for (name, play) in [("Foundation's", playTheirs), ("our", playOurs)] {
            test_clock_set(0)
            let start = MonotonicInstant.now
            let (fired, timedOut) = try play(delay) { test_clock_set(jump) }
            for (event, date) in [("timer", fired), ("run's end", timedOut)] {
                guard let date else { fail("\(name) \(event) did not come after the clock was set by \(jump) s") }
                check(
                    start + .milliseconds(99) <= date && date < start + .seconds(30),
                    "\(name) \(event) came \(start.duration(to: date)) after the start when the clock was set by \(jump) s"
                )
            }
        }
    }
}

// Each has a timer after the delay, and then a run of so long, with the clock set just before the loop sleeps.

private func playTheirs(_ delay: Double, _ jump: @escaping () -> Void) -> (MonotonicInstant?, MonotonicInstant?) {
    let loop = CFRunLoopGetCurrent()
    var fired: MonotonicInstant?
    let timer = CFRunLoopTimerCreateWithHandler(nil, CFAbsoluteTimeGetCurrent() + delay, 0, 0, 0) { _ in
        fired = .now
        CFRunLoopStop(loop)
    }
    CFRunLoopAddTimer(loop, timer, kCFRunLoopDefaultMode)
    for _ in 0..<2 {
        let observer = CFRunLoopObserverCreateWithHandler(
            nil, CFRunLoopActivity.beforeWaiting.rawValue, false, 0
        ) { _, _ in jump() }
        CFRunLoopAddObserver(loop, observer, kCFRunLoopDefaultMode)
        let far = CFRunLoopTimerCreateWithHandler(nil, CFAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0) { _ in }
        CFRunLoopAddTimer(loop, far, kCFRunLoopDefaultMode)
        _ = CFRunLoopRunInMode(kCFRunLoopDefaultMode, fired == nil ? 40 : delay, false)
        CFRunLoopTimerInvalidate(far)
        CFRunLoopObserverInvalidate(observer)
        test_clock_set(0)
    }
    return (fired, .now)
}

private func playOurs(
    _ delay: Double, _ jump: @escaping () -> Void
) throws -> (MonotonicInstant?, MonotonicInstant?) {
    let loop = ThreadRunLoop.current
    // Sound: called on this thread.
    nonisolated(unsafe) let jump = jump
    let fired = Seen()
    try loop.add(
        ThreadRunLoop.Timer(after: .seconds(delay)) { _ in
            fired.date = .now
            loop.stop()
        })
    for _ in 0..<2 {
        let observer = ThreadRunLoop.Observer(.beforeWaiting, repeats: false) { _, _ in jump() }
        try loop.add(observer)
        let far = ThreadRunLoop.Timer(after: .seconds(1e6)) { _ in }
        try loop.add(far)
        try loop.runInMode(.default, seconds: fired.date == nil ? 40 : delay)
        far.invalidate()
        observer.invalidate()
        test_clock_set(0)
    }
    return (fired.date, .now)
}

// Sound: one thread.
private final class Seen: @unchecked Sendable {
    var date: MonotonicInstant?
}

/// A timer that is put off again and again leaves nothing behind.
func dateATimerOverAndOver() {
    let (loop, timer) = (ThreadRunLoop.current, ThreadRunLoop.Timer(at: .distantFuture) { _ in })
    _ = try? loop.add(timer)
    func date(_ count: Int64) {
        for second in 0..<count { timer.nextFireDate = .now + .seconds(1000 + second) }
    }
    date(1000)
    let before = heapUse()
    date(200_000)
    check(heapUse() < before + 1 << 20, "\(heapUse()) bytes are in use, before it were \(before)")
}
