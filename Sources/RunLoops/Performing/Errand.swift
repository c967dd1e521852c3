import Synchronization

extension ThreadRunLoop {
    /// Calls a closure on the loop's thread and waits for what it returns: at once when that is the calling thread,
    /// otherwise in the next pass of one of the modes. Any thread may call it.
    /// The corresponding method is NSObject's `performSelector:onThread:withObject:waitUntilDone:modes:`.
    ///
    /// Two loops that wait for each other wait for ever, as does a call to a loop that lives and is never run.
    ///
    /// - Parameters:
    ///   - modes: The modes in which it may be called.
    ///   - body: Called on the loop's thread.
    /// - Returns: What the closure returns.
    /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread has ended, or ends before the closure was called.
    @available(*, noasync, message: "it blocks its thread; `execute` does not")
    @discardableResult
    public func performAndWait<Value: Sendable>(
        inModes modes: [Mode] = [.common], _ body: @escaping @Sendable () -> Value
    ) throws(RunLoopError) -> Value {
        if isCurrent { return body() }
        guard case .success(let value) = Errand(body).wait(for: self, inModes: modes) else { throw .loopEnded }
        return value
    }

    /// Calls a closure on the loop's thread, in the next pass of one of the modes, and suspends until it has returned.
    ///
    ///     let count = try await loop.execute { window.count }
    ///
    /// - Parameters:
    ///   - modes: The modes in which it may be called.
    ///   - body: Called on the loop's thread, not at all when the task is cancelled before.
    /// - Returns: What the closure returns.
    /// - Throws: What the closure throws; ``RunLoopError/loopEnded`` when the loop's thread has ended, or ends before
    ///   the closure was called; `CancellationError` when the task was cancelled before.
    @discardableResult
    public func execute<Value: Sendable>(
        inModes modes: [Mode] = [.common], _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        let errand = Errand(body)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                errand.whenOver { continuation.resume(with: $0) }
                errand.send(to: self, inModes: modes)
            }
        } onCancel: {
            errand.withdraw(CancellationError())
        }
    }
}

/// A closure that a loop calls for somebody who waits for its outcome. There always is one: a loop that ends lets go of
/// its blocks, and that is an outcome too.
final class Errand<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, any Error>

    private struct State {
        /// Nil once it has begun, or was withdrawn.
        var body: (@Sendable () throws -> Value)?
        var outcome: Outcome?
        var tell: (@Sendable (Outcome) -> Void)?
    }

    private let state: Mutex<State>

    init(_ body: @escaping @Sendable () throws -> Value) { state = Mutex(State(body: body)) }

    func send(to loop: ThreadRunLoop, inModes modes: [ThreadRunLoop.Mode]) {
        // In a function of its own, at whose end nobody but the loop has the carrier.
        let carrier = Carrier(self)
        loop.perform(inModes: modes) { carrier.errand.run() }
        // Somebody waits, so it does not sleep before, as it may when its own thread performs a block.
        if loop.isCurrent { loop.wakeUp() }
    }

    func wait(for loop: ThreadRunLoop, inModes modes: [ThreadRunLoop.Mode]) -> Outcome {
        let gate = Gate()
        whenOver { _ in gate.open() }
        send(to: loop, inModes: modes)
        _ = gate.wait(until: .distantFuture)
        return state.withLock { $0.outcome } ?? .failure(RunLoopError.loopEnded)
    }

    /// Has the outcome told, at once if it is there.
    func whenOver(_ tell: @escaping @Sendable (Outcome) -> Void) {
        let outcome = state.withLock { state in
            if state.outcome == nil { state.tell = tell }
            return state.outcome
        }
        if let outcome { tell(outcome) }
    }

    /// Makes the error its outcome, unless it has begun.
    func withdraw(_ error: any Error) {
        if begin() != nil { end(.failure(error)) }
    }

    private func run() {
        if let body = begin() { end(Result(catching: body)) }
    }

    private func begin() -> (@Sendable () throws -> Value)? {
        state.withLock { state in
            defer { state.body = nil }
            return state.body
        }
    }

    private func end(_ outcome: Outcome) {
        let tell = state.withLock { state in
            state.outcome = outcome
            defer { state.tell = nil }
            return state.tell
        }
        tell?(outcome)
    }

    /// What the loop has of it.
    private final class Carrier: Sendable {
        let errand: Errand

        init(_ errand: Errand) { self.errand = errand }

        deinit { errand.withdraw(RunLoopError.loopEnded) }
    }
}
