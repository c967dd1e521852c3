@preconcurrency import CoreFoundation
import RunLoops

/// Runs the calling thread's CFRunLoop until it is woken or the time is over.
///
/// A timer ends the run: each CFRunLoopRunInMode with a timeout would leave a thread of libdispatch behind.
final class ReplyWait: @unchecked Sendable {
    // Sound: any thread may signal a source and wake a loop up.
    private let loop: CFRunLoop = CFRunLoopGetCurrent()
    private let mode: CFRunLoopMode
    private let isWoken = Latch()
    private var source: CFRunLoopSource!
    private var timer: CFRunLoopTimer?

    /// A run that somebody has started in a callout may take the signal.
    private static let secondsBetweenSignals = 0.01

    init(mode: CFRunLoopMode) {
        self.mode = mode
        // CFRunLoop takes two sources with the same info for one.
        var sources = CFRunLoopSourceContext()
        sources.info = Unmanaged.passUnretained(self).toOpaque()
        sources.perform = { info in
            guard let info else { return }
            Unmanaged<ReplyWait>.fromOpaque(info).takeUnretainedValue().repeatSignal()
        }
        source = CFRunLoopSourceCreate(nil, -100, &sources)
    }

    /// Wakes the waiting thread. Any thread may call this method.
    func wake() {
        isWoken.open()
        CFRunLoopSourceSignal(source)
        CFRunLoopWakeUp(loop)
    }

    private func repeatSignal() {
        CFRunLoopTimerSetNextFireDate(timer, CFAbsoluteTimeGetCurrent() + Self.secondsBetweenSignals)
    }

    /// Runs the loop until the condition is false, and in any case once.
    func run(until deadline: MonotonicInstant, while isWaiting: () -> Bool) {
        CFRunLoopAddSource(loop, source, mode)
        defer { CFRunLoopSourceInvalidate(source) }
        if deadline.hasPassed {
            CFRunLoopRunInMode(mode, 0, true)
        } else {
            waitRunning(until: deadline, while: isWaiting)
        }
    }

    private func waitRunning(until deadline: MonotonicInstant, while isWaiting: () -> Bool) {
        var timers = CFRunLoopTimerContext()
        timers.info = Unmanaged.passUnretained(source).toOpaque()
        let seconds = min(MonotonicInstant.now.duration(to: deadline) / .seconds(1), 1e9)
        timer = CFRunLoopTimerCreate(
            nil, CFAbsoluteTimeGetCurrent() + seconds, Self.secondsBetweenSignals, 0, 0,
            { _, source in
                source.map { CFRunLoopSourceSignal(Unmanaged<CFRunLoopSource>.fromOpaque($0).takeUnretainedValue()) }
            },
            &timers)
        CFRunLoopAddTimer(loop, timer, mode)
        defer { CFRunLoopTimerInvalidate(timer) }
        while isWaiting(), !deadline.hasPassed {
            // Finished: the mode is one that no loop can run, such as kCFRunLoopCommonModes.
            if CFRunLoopRunInMode(mode, 1e10, true) == .finished { _ = isWoken.wait(until: deadline) }
        }
    }
}
