import Synchronization

extension ThreadRunLoop {
    /// Calls a closure on the loop's thread and waits for its result. The call is made at once on the loop's own thread,
    /// otherwise in the next pass of one of the modes. Any thread may call it. Loops that wait for each other deadlock.
    /// The corresponding method is NSObject's `performSelector:onThread:withObject:waitUntilDone:modes:`.
    /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread ends, or has ended, before the closure was called.
    @available(*, noasync, message: "it blocks its thread; `execute` does not")
    @discardableResult
    public func performAndWait<Value: Sendable>(
        inModes modes: [Mode] = [.common], _ body: @escaping @Sendable () -> Value
    ) throws(RunLoopError) -> Value {
        if isCurrent { return body() }
        guard case .success(let value) = LoopCall(body).wait(for: self, inModes: modes) else { throw .loopEnded }
        return value
    }

    /// Calls a closure on the loop's thread, in the next pass of one of the modes, and suspends until it has returned.
    ///
    ///     print(try await ThreadRunLoop.main.execute { ThreadRunLoop.main.allModes })
    ///
    /// - Throws: The closure's error; before its call, ``RunLoopError/loopEnded`` and `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func execute<Value: Sendable>(
        inModes modes: [Mode] = [.common], _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        let call = LoopCall(body)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                call.whenOver { continuation.resume(with: $0) }
                call.send(to: self, inModes: modes)
            }
        } onCancel: {
            call.withdraw(CancellationError())
        }
    }
}

extension RunLoopThread {
    /// Calls a closure on the thread, in its loop's common modes, and waits for its result; at once when called on
    /// the thread itself. Any thread may call it. For a call without waiting, use the ``loop``.
    /// - Throws: The closure's error; ``RunLoopError/loopEnded`` when the thread was stopped or ends before the call.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    @discardableResult
    public func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
        if loop.isCurrent { return try body() }
        guard !loop.isStoppedForGood else { throw RunLoopError.loopEnded }
        return try LoopCall(body).wait(for: loop, inModes: [.common]).get()
    }

    /// Calls a closure on the thread, in its loop's common modes, and suspends until it has returned.
    /// - Throws: The closure's error; ``RunLoopError/loopEnded`` when the thread was stopped or ends before the call;
    ///   `CancellationError` when the task was cancelled before the call.
    @discardableResult
    public nonisolated(nonsending) func run<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        guard !loop.isStoppedForGood else { throw RunLoopError.loopEnded }
        return try await loop.execute(body)
    }

    /// Calls the queued blocks and requests of the default mode and the common modes, and then stops. Any thread may
    /// call it, also the thread itself. Delayed requests and closures for other modes are not called; closures given
    /// later may or may not be. Keep the thread until `join(before:)` has returned, because its release stops it at once.
    public func finish() {
        // Requests are called after the queued blocks, and this one after all other requests.
        // A loop that has ended is finished.
        _ = try? loop.perform(order: .max) { [loop] in loop.stopForGood() }
    }
}

/// A closure that a loop calls for a caller who waits for the outcome. Every call gets an outcome.
final class LoopCall<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, any Error>

    private struct State {
        /// Nil once the call has begun, or was withdrawn.
        var body: (@Sendable () throws -> Value)?
        var outcome: Outcome?
        var tell: (@Sendable (Outcome) -> Void)?
    }

    private let state: Mutex<State>

    init(_ body: @escaping @Sendable () throws -> Value) { state = Mutex(State(body: body)) }

    func send(to loop: ThreadRunLoop, inModes modes: [ThreadRunLoop.Mode]) {
        // In a function of its own, at whose end only the loop's block holds the reference.
        let reference = LoopReference(self)
        loop.queue({ reference.call.run() }, modes, wakes: true)
    }

    func wait(for loop: ThreadRunLoop, inModes modes: [ThreadRunLoop.Mode]) -> Outcome {
        let latch = Latch()
        whenOver { _ in latch.open() }
        send(to: loop, inModes: modes)
        _ = latch.wait(until: .distantFuture)
        return state.withLock { $0.outcome } ?? .failure(RunLoopError.loopEnded)
    }

    /// Calls `tell` with the outcome, at once if the call is over.
    func whenOver(_ tell: @escaping @Sendable (Outcome) -> Void) {
        let outcome = state.withLock { state in
            if state.outcome == nil { state.tell = tell }
            return state.outcome
        }
        if let outcome { tell(outcome) }
    }

    func withdraw(_ error: any Error) { if begin() != nil { end(.failure(error)) } }

    func run() { if let body = begin() { end(Result(catching: body)) } }

    private func begin() -> (@Sendable () throws -> Value)? { state.withLock { $0.body.take() } }

    private func end(_ outcome: Outcome) {
        let tell = state.withLock { state in
            state.outcome = outcome
            return state.tell.take()
        }
        tell?(outcome)
    }
}

protocol Cancellable: AnyObject, Sendable { func cancel() }

extension LoopCall: Cancellable { func cancel() { withdraw(RunLoopError.loopEnded) } }

/// The loop's reference to a call. A loop that ends releases it, which cancels a call that has not begun.
final class LoopReference<Call: Cancellable>: Sendable {
    let call: Call

    init(_ call: Call) { self.call = call }

    deinit { call.cancel() }
}
