// The ways to run a loop, of CFRunLoop and of NSRunLoop.

extension ThreadRunLoop {
    /// Runs the default mode until ``stop()``, or until the mode has no source, timer or block left (on the main thread
    /// never). Only the loop's own thread may call it. The corresponding CF function is `CFRunLoopRun`.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on, as every run does.
    @available(*, noasync, message: "a run blocks its thread; an async main runs the main loop while it awaits")
    public func run() throws(RunLoopError) {
        // Without a limit a run ends only finished or stopped.
        _ = try run(.default, until: .distantFuture, returnAfterSourceHandled: false)
    }

    /// Runs the default mode until a time, nil for no limit, or until the mode has no source, timer or block left.
    /// ``stop()`` does not end the run. Only the loop's own thread may call it.
    /// The corresponding methods are NSRunLoop's `runUntilDate:` and, with nil, `run`.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread; an async main runs the main loop while it awaits")
    public func run(until limit: ContinuousClock.Instant?) throws(RunLoopError) {
        let limit = MonotonicInstant(limit)
        while try run(.default, limit), !limit.hasPassed {}
    }

    /// Runs a mode until one source was handled or the time limit is reached; nil stands for no limit. A limit in the
    /// past makes one pass that does not sleep. Only the loop's own thread may call it. The corresponding method is
    /// NSRunLoop's `runMode:beforeDate:`.
    /// - Returns: False when the mode has no source, timer or block.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread; an async main runs the main loop while it awaits")
    @discardableResult
    public func run(mode: Mode, before limit: ContinuousClock.Instant?) throws(RunLoopError) -> Bool {
        try run(mode, MonotonicInstant(limit))
    }

    private func run(_ mode: Mode, _ limit: MonotonicInstant) throws(RunLoopError) -> Bool {
        try checkThread()
        if isFinished(mode) { return false }
        _ = try run(mode, until: limit.hasPassed ? .distantPast : limit, returnAfterSourceHandled: true)
        return true
    }

    /// Runs a mode for some seconds, or until one source was handled. Zero or less makes one pass without a
    /// sleep; infinity and `.nan` stand for no limit. Only the loop's own thread may call it. The corresponding CF
    /// function is `CFRunLoopRunInMode`.
    @available(*, noasync, message: "a run blocks its thread; an async main runs the main loop while it awaits")
    @discardableResult
    public func runInMode(
        _ mode: Mode = .default, seconds: Double, returnAfterSourceHandled: Bool = false
    ) throws(RunLoopError) -> RunResult {
        func limit() -> MonotonicInstant {
            if seconds <= 0 { return .distantPast }
            return seconds <= 1e9 ? .now + .seconds(seconds) : .distantFuture
        }
        return try run(mode, until: limit(), returnAfterSourceHandled: returnAfterSourceHandled)
    }

    /// Makes one pass of a mode that does not sleep, and returns when the mode's next timer is due. Only the loop's own
    /// thread may call it. The corresponding method is NSRunLoop's `limitDateForMode:`.
    /// - Returns: A time in two thousand years without a timer; nil without a source, timer or block.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread")
    public func limitDate(forMode mode: Mode = .default) throws(RunLoopError) -> ContinuousClock.Instant? {
        try runInMode(mode, seconds: 0, returnAfterSourceHandled: true)
        return isFinished(mode) ? nil : nextTimerFireDate(forMode: mode) ?? .distantFuture
    }

    /// Runs a mode until one source was handled or the time limit is reached; nil stands for no limit. Only the loop's
    /// own thread may call it. The corresponding method is NSRunLoop's `acceptInputForMode:beforeDate:`.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread")
    public func acceptInput(forMode mode: Mode = .default, before limit: ContinuousClock.Instant?) throws(RunLoopError)
    {
        _ = try run(mode: mode, before: limit)
    }
}

/// One run of the main loop, for an async `main`; false when the loop cannot run.
@_cdecl("crl_run_main_loop")
func runMainLoop() -> Bool { (try? ThreadRunLoop.main.run()) != nil }
