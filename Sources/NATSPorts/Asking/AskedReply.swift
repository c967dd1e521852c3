#if NATS
    import Ports
    import RunLoopLocks

    /// A request that waits for its one answer.
    final class AskedReply: Asked {
        enum Outcome: Sendable {
            case answer(Answer)
            case noResponders
            case lost
        }

        private struct State {
            var outcome: Outcome?
            var waiter: TaskWaiter?
        }

        private let state = Lock(State())

        private func end(_ outcome: Outcome) {
            let waiter = state.withLock { state in
                if state.outcome == nil { state.outcome = outcome }
                return state.waiter
            }
            waiter?.wake()
        }

        func receive(_ answer: Answer) -> Bool {
            end(.answer(answer))
            return true
        }

        func noResponders() { end(.noResponders) }
        func lost() { end(.lost) }

        var taken: UInt32 { 0 }
        func noteSent(_ count: UInt32) -> Bool { false }

        var outcome: Outcome? { state.withLock { $0.outcome } }

        /// Suspends until the outcome.
        /// - Returns: Nil at the deadline.
        /// - Throws: `CancellationError`; `PortError` without a thread for the deadline.
        nonisolated(nonsending) func outcome(
            before deadline: ContinuousClock.Instant, on runtime: PortRuntime
        ) async throws -> Outcome? {
            let waiter = runtime.makeTaskWaiter()
            state.withLock { $0.waiter = waiter }
            let limit = MonotonicInstant(deadline)
            do {
                repeat { if let outcome { return outcome } } while try await waiter.wait(until: limit)
                return outcome
            } catch {
                // The answer may have come together with the cancellation.
                if let outcome { return outcome }
                throw error
            }
        }
    }
#endif
