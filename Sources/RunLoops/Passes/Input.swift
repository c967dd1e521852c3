// The two ways in which NSRunLoop runs a mode that are not in RunPass.swift.

extension ThreadRunLoop {
    /// Makes one pass of a mode that does not sleep, and says when its next timer is due.
    /// The corresponding method is NSRunLoop's `limitDateForMode:`.
    ///
    /// Only the loop's own thread may call it.
    /// - Parameter mode: The mode to run in.
    /// - Returns: The time until which a run of the mode may sleep: ``MonotonicInstant/distantFuture`` when it has no
    ///   timer; nil when it has no source, timer or block (left).
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread")
    public func limitDate(forMode mode: Mode = .default) throws(RunLoopError) -> MonotonicInstant? {
        try runInMode(mode, seconds: 0, returnAfterSourceHandled: true)
        return isFinished(mode) ? nil : nextTimerFireDate(forMode: mode) ?? .distantFuture
    }

    /// Runs a mode until one source was handled, or a time has come.
    /// The corresponding method is NSRunLoop's `acceptInputForMode:beforeDate:`.
    ///
    /// It is ``run(mode:before:)`` without a word on whether there was anything to run.
    ///
    /// Only the loop's own thread may call it.
    /// - Parameters:
    ///   - mode: The mode to run in.
    ///   - limit: When to return in any case. A time in the past makes one pass that does not sleep.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread")
    public func acceptInput(forMode mode: Mode = .default, before limit: MonotonicInstant) throws(RunLoopError) {
        _ = try run(mode: mode, before: limit)
    }
}
