#if NATS
    import Ports
    import RunLoopLocks
    import RunLoops

    /// An event that happens once, or a signal that may come many times, for tasks that wait until a deadline.
    final class Gate: Sendable {
        private struct State {
            var isOpen = false
            var waiters: [TaskWaiter] = []
        }

        private let state = Lock(State())

        var isOpen: Bool { state.withLock { $0.isOpen } }

        func open() { wake { $0.isOpen = true } }

        /// Lets tasks wait again.
        func close() { state.withLock { $0.isOpen = false } }

        private func wake(_ change: (inout State) -> Void) {
            let waiters = state.withLock { state in
                change(&state)
                return state.waiters
            }
            for waiter in waiters { waiter.wake() }
        }

        /// Suspends until the latch is open.
        /// - Returns: False when the deadline came first.
        /// - Throws: `CancellationError`; `PortError` without a thread for the deadline.
        nonisolated(nonsending) func wait(before deadline: ContinuousClock.Instant?) async throws -> Bool {
            let waiter = PortRuntime.shared.makeTaskWaiter()
            let isOpen = state.withLock { state in
                if !state.isOpen { state.waiters.append(waiter) }
                return state.isOpen
            }
            if isOpen { return true }
            defer { state.withLock { state in state.waiters.removeAll { $0 === waiter } } }
            let deadline = MonotonicInstant(deadline)
            repeat { if self.isOpen { return true } } while try await waiter.wait(until: deadline)
            return self.isOpen
        }
    }
#endif
