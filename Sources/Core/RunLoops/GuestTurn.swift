import CRunLoopShims

extension ThreadRunLoop {
    /// One turn of another event loop on a loop's thread: the time in which the loop sleeps, or checks for events.
    ///
    /// The other loop waits for ``descriptor`` beside its own descriptors, no longer than until ``deadline``, and serves
    /// its own events. Its callbacks may run both loops.
    public struct GuestTurn: Sendable {
        /// The loop that sleeps.
        public let loop: ThreadRunLoop
        fileprivate let time: GuestTime

        /// The mode that the loop runs in.
        public var mode: Mode { time.mode }
        /// An epoll descriptor of the mode, readable when the loop has work. Then the turn is over. Watch it, and neither
        /// read nor close it.
        public var descriptor: Int32 { time.waitSet }
        /// When the turn is over at the latest: nil for no limit, and a time in the past for a turn that must not block.
        public var deadline: ContinuousClock.Instant? {
            time.deadline == .distantFuture ? nil : time.deadline.continuous
        }
        /// Whether the turn ends after a source of the guest's, because the run returns after a handled source.
        public var endsAfterSource: Bool { time.endsAfterSource }

        /// Whether the loop has work now, and the turn is to end. A guest that watches the descriptor for edges, or goes
        /// on for several rounds, asks before each wait.
        public var isOver: Bool { loop.hasWork(descriptor) }
    }

    /// Gives another event loop the thread each time that the loop sleeps. Called on the loop's thread, and again inside
    /// a call when a callback of the guest runs the loop. Returns whether the guest has served a source of its own.
    public typealias Guest = @Sendable (GuestTurn) -> Bool

    /// Another event loop that lives on the loop's thread, such as GLib's. It has the thread while the loop sleeps. Nil,
    /// the default, stands for none.
    ///
    /// The guest's callbacks run between ``RunLoopActivity/beforeWaiting`` and ``RunLoopActivity/afterWaiting``. Their
    /// changes of this loop (blocks, signals, timers, a stop) end the sleep, and a turn that has served a source of the
    /// guest's is a handled source. A loop that has work all the time gives a guest one turn a pass, without a sleep. A
    /// loop that another loop drives has no guest, and a loop with a guest does not poll (``pollingTime``).
    ///
    /// Any thread may set the guest, from the next sleep on. There is no CF function for this.
    public var guest: Guest? {
        get {
            if crl_is_forked() { return nil }
            guard let guest = state.withLock({ $0.guest }) else { return nil }
            return { turn in guest(turn.time) }
        }
        set {
            if crl_is_forked() { return }
            // Unowned, because the loop retains the closure and is alive while it runs.
            var new: GuestSleep?
            if let newValue { new = { [unowned self] time in newValue(GuestTurn(loop: self, time: time)) } }
            // Released after the lock.
            let former = state.withLock { state in
                hasGuest.store(new != nil, ordering: .releasing)
                defer { state.guest = new }
                return state.guest
            }
            withExtendedLifetime(former) {}
            wakeFromOutside()
        }
    }
}
