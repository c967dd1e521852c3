import Synchronization

extension ThreadRunLoop {
    /// How long the loop stays awake for a port's next message before it sleeps. Zero, the default, turns polling off.
    ///
    /// A message to a loop that is awake costs its sender no system call, and the loop no wake-up, so a round trip between
    /// two threads takes a fraction of the time. In exchange the loop uses its processor for that long. Some tens of
    /// microseconds do for two threads that take turns.
    ///
    /// The loop stays awake after a turn of a `MachPort` that has nothing left, when no other loop and no thread takes
    /// messages from the port. Timers, blocks and other sources are served meanwhile. When no message comes in
    /// time, the loop sleeps as if it did not poll, and polls seldom until a message comes in time again. On a single
    /// processor the loop never polls, nor while another loop drives it. ``isWaiting`` is false while it does.
    ///
    /// See ``setPollingTime(_:)``.
    public var pollingTime: Duration { .nanoseconds(Int64(pollingNanoseconds.load(ordering: .relaxed))) }

    /// Sets ``pollingTime``. Any thread may set the time.
    /// - Throws: ``RunLoopError/invalidDuration(name:value:allowed:)`` for a negative time, or more than a millisecond: a
    ///   sleep costs less.
    public func setPollingTime(_ time: Duration) throws(RunLoopError) {
        try RunLoopError.check("pollingTime", time, in: .zero ... .milliseconds(1))
        pollingNanoseconds.store(UInt64(time.attoseconds / 1_000_000_000), ordering: .relaxed)
    }
}
