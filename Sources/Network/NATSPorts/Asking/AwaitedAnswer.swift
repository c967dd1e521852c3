#if NATS
    import Ports
    import RunLoopLocks

    /// A request that waits for its one answer.
    final class AwaitedAnswer: Asked {
        enum Outcome: Sendable {
            case answer(Answer)
            case end(AskedEnd)
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

        func end(_ reason: AskedEnd) { end(.end(reason)) }

        var taken: UInt32 { 0 }
        func noteSent(_ count: UInt32) -> Bool { false }

        private var outcome: Outcome? { state.withLock { $0.outcome } }

        /// Suspends until the answer or the end.
        /// - Throws: `CancellationError`.
        nonisolated(nonsending) func outcome(on runtime: PortRuntime) async throws -> Outcome {
            let waiter = runtime.makeTaskWaiter()
            state.withLock { $0.waiter = waiter }
            while true {
                if let outcome { return outcome }
                do { _ = try await waiter.wait(until: .distantFuture) } catch {
                    // The answer may have come together with the cancellation.
                    if let outcome { return outcome }
                    throw error
                }
            }
        }
    }
#endif
