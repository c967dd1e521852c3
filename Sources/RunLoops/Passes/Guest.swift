import CRunLoopShims

extension ThreadRunLoop {
    /// One turn of another event loop on a loop's thread: the time in which the loop sleeps, or looks for events.
    ///
    /// The other loop waits for ``descriptor`` beside what it waits for by itself, no longer than until ``deadline``, and
    /// serves what is ready of its own. Its callbacks may run both loops.
    public struct GuestTurn: Sendable {
        /// The loop that sleeps.
        public let loop: ThreadRunLoop
        /// The mode that the loop runs in.
        public let mode: Mode
        /// An epoll descriptor, readable when the loop has work: the turn is over then. It is the mode's own. Watch it,
        /// and neither read nor close it.
        public let descriptor: Int32
        /// When the turn is over at the latest; ``MonotonicInstant/distantPast``: the turn must not block.
        public let deadline: MonotonicInstant
        /// Whether the run returns after a handled source: then the turn ends after one of the guest's, too.
        public let endsAfterSource: Bool

        /// Whether the loop has work now, and the turn is to end. A guest that watches the descriptor for edges, or goes
        /// on for several rounds, asks before each wait.
        public var isOver: Bool { loop.hasWork(descriptor) }
    }

    /// Gives another event loop the thread each time that the loop sleeps; returns whether it has served anything that
    /// counts as a source. Called on the loop's thread, and again inside a call when a callback of the guest runs the loop.
    public typealias Guest = @Sendable (GuestTurn) -> Bool

    /// Another event loop that lives on the loop's thread, such as GLib's: it has the thread while the loop sleeps. Nil,
    /// the default: none.
    ///
    /// The guest's callbacks run between ``Activity/beforeWaiting`` and ``Activity/afterWaiting``. What they change in
    /// this loop (blocks, signals, timers, a stop) ends the sleep, and a turn that has served a source of the guest's
    /// is a handled source. A loop that has work all the time gives a guest one turn a pass, without a sleep. A loop that
    /// another loop drives has no guest, and one with a guest does not poll (``pollingTime``).
    ///
    /// Any thread may set the guest, from the next sleep on. There is no CF function for this.
    public var guest: Guest? {
        get { crl_is_forked() ? nil : state.withLock { $0.guest } }
        set {
            if crl_is_forked() { return }
            // Released after the lock.
            let former = state.withLock { state in
                hasGuest.store(newValue != nil, ordering: .releasing)
                defer { state.guest = newValue }
                return state.guest
            }
            withExtendedLifetime(former) {}
            wakeUpFromOutside()
        }
    }

    /// As ``nextEvent(_:_:isMainQueueAlone:)``, for a loop whose guest has the thread meanwhile.
    func nextEventWithGuest(
        _ mode: OpenMode, _ limit: MonotonicInstant?, endsAfterSource: Bool, isMainQueueAlone: Bool
    ) -> Event {
        let (guest, name) = state.withLock { ($0.guest, $0.modes[mode.index].mode) }
        // A guest with work in each turn leaves every other pass to the loop's own events.
        var isOwnTurn = servedGuestLast.exchange(false, ordering: .relaxed)
        while true {
            if !isOwnTurn {
                let isReady = limit == nil || crl_poll(mode.waitSet.set, -1, 0) != 0
                let turn = GuestTurn(
                    loop: self, mode: name, descriptor: mode.waitSet.set,
                    deadline: isReady ? .distantPast : limit ?? .distantPast,
                    endsAfterSource: endsAfterSource)
                let hasServed = guest?(turn) ?? false
                if crl_is_forked() { return .none }
                if hasServed {
                    servedGuestLast.store(true, ordering: .relaxed)
                    return .guest
                }
            }
            isOwnTurn = false
            let ready = nextEvent(mode, limit.map { _ in .distantPast }, isMainQueueAlone: isMainQueueAlone)
            guard let limit, ready == nil, !isWokenUp, !limit.hasPassed
            else { return state.withLock { event(for: ready, mode.index, &$0) } }
        }
    }
}
