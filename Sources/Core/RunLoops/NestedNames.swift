extension ThreadRunLoop {
    /// The name of a set of items that a loop serves together.
    public typealias Mode = RunLoopMode
    /// A source that the program signals.
    public typealias Source0 = RunLoopSource0
    /// A source that a descriptor wakes.
    public typealias Source1 = RunLoopSource1
    /// A call of a ``Source1`` in one pass of a loop.
    public typealias Turn = RunLoopTurn
    /// The events that a source waits for, or that its descriptor is ready for.
    public typealias Readiness = RunLoopReadiness
    /// Calls a handler at a time, once or on a grid of times.
    public typealias Timer = RunLoopTimer
    /// Calls a handler when a run of a loop comes to certain points.
    public typealias Observer = RunLoopObserver
    /// Points of a run at which observers are called.
    public typealias Activity = RunLoopActivity
    /// A closure that a loop calls once, and that can be cancelled.
    public typealias PerformRequest = RunLoopPerformRequest
    /// Why a run of a loop ended.
    public typealias RunResult = RunLoopResult
}

extension RunLoopSource0 {
    /// Called with the loop, and the loop's mode, that the source has joined or left.
    public typealias Callback = @Sendable (ThreadRunLoop, RunLoopMode) -> Void

    /// Makes a source. The corresponding CF function is `CFRunLoopSourceCreate`.
    /// - Parameters:
    ///   - order: The place among the sources of a mode.
    ///   - label: The item's name in dumps and stall reports.
    ///   - schedule: Called on the thread that has added the source to a mode.
    ///   - cancel: Called on the thread that has removed the source from a mode, or at the end of the loop's thread.
    ///   - perform: Called on the loop's thread, once for all signals until then.
    public convenience init(
        order: Int = 0, label: String? = nil, schedule: Callback? = nil, cancel: Callback? = nil,
        perform: @escaping @Sendable () -> Void
    ) {
        func change(_ callback: Callback?) -> Change? {
            guard let callback else { return nil }
            return { loop, mode in if let loop = loop as? ThreadRunLoop { callback(loop, mode) } }
        }
        self.init(
            order: order, label: label, schedule: change(schedule), cancel: change(cancel), isRequest: false,
            perform: perform)
    }
}

extension RunLoopTurn {
    /// The loop that serves the source.
    public var loop: ThreadRunLoop { .current }
}
