import CRunLoopShims

/// A thread's run loop: it sleeps until one of its sources, timers or blocks has work, and calls them in CFRunLoop's
/// order. The corresponding CF type is `CFRunLoop`.
///
/// Each thread has one, made when it first asks for ``current``, as long as it lives. A run serves one mode's items:
///
///     let loop = ThreadRunLoop.current
///     try loop.add(ThreadRunLoop.Timer(after: .seconds(1), repeats: true) { _ in print("tick") })
///     try loop.run()
///
/// Any thread may add, remove, signal, wake, stop and perform; only the loop's own thread may run the loop. No item is
/// called with a lock held. Work for a loop whose thread has ended throws ``RunLoopError/loopEnded``; a stop or a wake-up
/// of such a loop, and a change of an item that was in it, do nothing. After a fork the loops belong to the parent: in
/// the child, a call that can throw throws ``RunLoopError/forked``, and other calls do nothing and return false or nil.
public final class ThreadRunLoop: LoopCore, @unchecked Sendable {
    // Sound: the field has a lock, and so have the fields of the base classes.

    let ownedRequests = OwnedRequests()

    private override init(isMain: Bool) { super.init(isMain: isMain) }

    /// The loop of the main thread. Any thread may ask. The corresponding CF function is `CFRunLoopGetMain`.
    public static let main = ThreadRunLoop(isMain: true)

    /// The calling thread's loop. The corresponding CF function is `CFRunLoopGetCurrent`.
    @available(*, noasync, message: "a task may go on on another thread; ask a loop whether it isCurrent")
    public static var current: ThreadRunLoop {
        if let value = crl_thread_value() { return Unmanaged<ThreadRunLoop>.fromOpaque(value).takeUnretainedValue() }
        let loop = crl_thread_id() == crl_process_id() ? main : ThreadRunLoop(isMain: false)
        let kept = crl_thread_value_set(Unmanaged.passRetained(loop).toOpaque()) { value in
            // `current` is still this loop during the items' last callouts.
            _ = crl_thread_value_set(value, nil)
            LoopCore.endCurrent()
        }
        contract(kept, "the process has no thread-specific key left for its run loops")
        return loop
    }

    /// Whether the loop is the calling thread's.
    public var isCurrent: Bool { isOnItsThread }

    /// The innermost run's mode, if any. The corresponding CF function is `CFRunLoopCopyCurrentMode`.
    public var currentMode: Mode? {
        if crl_is_forked() { return nil }
        return state.withLock { state in state.runs.last.map { state.modes[$0.mode].mode } }
    }

    /// The default mode, and all that ever had items. The corresponding CF function is `CFRunLoopCopyAllModes`.
    public var allModes: [Mode] { crl_is_forked() ? [.default] : state.withLock { $0.modes.map(\.mode) } }

    /// Whether the loop sleeps until an event comes. The corresponding CF function is `CFRunLoopIsWaiting`.
    public var isWaiting: Bool { isAsleep }

    /// When a mode's next timer is due, if any. The corresponding CF function is `CFRunLoopGetNextTimerFireDate`.
    public func nextTimerFireDate(forMode mode: Mode = .default) -> ContinuousClock.Instant? {
        if crl_is_forked() { return nil }
        return state.withLock { state in state.index(of: mode).flatMap { state.modes[$0].timers.nextFireDate() } }?
            .continuous
    }

    /// Makes the loop go through one more pass before it sleeps again. That pass sees everything done before the call.
    /// Any thread may call it. A signal handler may, too, on a loop that the program has asked for before. The
    /// corresponding CF function is `CFRunLoopWakeUp`, which a signal handler must not call.
    public func wakeUp() { wake() }

    /// Ends the innermost run, if there is one; to stop a run that may not have begun, `try loop.perform { loop.stop() }`.
    /// Any thread may call it. A signal handler may, too, on a loop that the program has asked for before. The
    /// corresponding CF function is `CFRunLoopStop`, which a signal handler must not call.
    public func stop() { stopInnermost() }

    /// Queues a block for the next pass in one of the modes; name at least one mode. Blocks run in the order they were
    /// queued, and do not count as handled sources. Any thread may call it; a call from another thread wakes the loop.
    /// The corresponding CF function is `CFRunLoopPerformBlock`, which leaves the wake-up to its caller.
    ///
    /// A block that changes a captured variable is not `@Sendable`. For the calling thread's own loop, ``local(_:)`` makes
    /// it so:
    ///
    ///     var count = 0
    ///     try ThreadRunLoop.current.perform(ThreadRunLoop.local { count += 1 })
    ///
    /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread has ended, and `forked`. Then the block is not performed.
    ///   Nor are blocks that still wait when the thread ends.
    public func perform(
        inModes modes: [Mode] = Mode.onlyDefault, _ block: @escaping @Sendable () -> Void
    ) throws(RunLoopError) {
        if !queue(block, modes, wakes: isChangedFromOutside) { throw crl_is_forked() ? .forked : .loopEnded }
    }
}
