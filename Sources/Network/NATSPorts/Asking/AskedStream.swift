import Ports
import RunLoopLocks
import TypedPorts

/// The frames of a stream that have come, and are not taken yet.
final class AskedStream: Asked {
    /// The frames that may be on their way, or wait here.
    static let window: UInt32 = 16

    /// How the stream ends, after the elements that have come.
    enum End: Sendable {
        case complete
        case failed(RequestFailure)
        case answer(Answer)
        /// A frame is missing.
        case broken
        case ended(AskedEnd)
    }

    private struct State {
        var waiting: [MachPort.Message] = []
        var hasBegun = false
        /// The frames that have come, which is the number of the next one.
        var received: UInt32 = 0
        var taken: UInt32 = 0
        var end: End?
        var waiter: TaskWaiter?
    }

    private let state = Lock(State())

    private func change<Result>(_ change: (inout State) -> Result) -> Result {
        let (result, waiter) = state.withLock { state in (change(&state), state.waiter) }
        waiter?.wake()
        return result
    }

    // MARK: Coming frames

    func receive(_ answer: Frame<Answer>) -> Bool {
        change { state in
            if state.end != nil { return true }
            switch answer.head {
            case .begun: state.hasBegun = true
            case .elements(let number, let id):
                if number == state.received, state.waiting.count < Int(Self.window) {
                    state.received += 1
                    state.waiting.append(answer.message(id: id))
                } else {
                    state.end = .broken
                }
            case .end(let number, let failure):
                if number != state.received {
                    state.end = .broken
                } else if let failure {
                    state.end = .failed(failure)
                } else {
                    state.end = .complete
                }
            case .reply, .failed, .busy, .refused, .unanswered, .held: state.end = .answer(answer.head)
            }
            // The reader removes the stream, and tells the server.
            return false
        }
    }

    private func end(_ end: End) { change { if $0.end == nil { $0.end = end } } }

    func end(_ reason: AskedEnd) { end(.ended(reason)) }

    var taken: UInt32 { state.withLock { $0.taken } }

    func noteSent(_ count: UInt32) -> Bool {
        // The server says so after the frames, so they would be here.
        if state.withLock({ $0.end == nil && $0.received < count }) { end(.broken) }
        return false
    }

    // MARK: The reader

    enum Next: Sendable {
        case begun
        /// Frames in a stream, and whether the server is to learn that more were taken.
        case elements(MachPort.Message, tellsTaken: UInt32?)
        case end(End)
    }

    private func next(_ hasBegun: Bool) -> Next? {
        state.withLock { state in
            if !hasBegun, state.hasBegun { return .begun }
            if !state.waiting.isEmpty {
                let message = state.waiting.removeFirst()
                state.taken += 1
                let isHalf = state.taken.isMultiple(of: Self.window / 2)
                return .elements(message, tellsTaken: isHalf ? state.taken : nil)
            }
            return state.end.map { .end($0) }
        }
    }

    /// Suspends until there is a frame, or the end. One task calls this at a time.
    /// - Parameter hasBegun: False for the wait for the beginning.
    /// - Returns: Nil at the deadline.
    /// - Throws: `CancellationError`; `PortError` without a thread for the deadline.
    nonisolated(nonsending) func next(
        hasBegun: Bool, before deadline: ContinuousClock.Instant?, on runtime: PortRuntime
    ) async throws -> Next? {
        if let next = next(hasBegun) { return next }
        let waiter = runtime.makeTaskWaiter()
        state.withLock { $0.waiter = waiter }
        defer { state.withLock { $0.waiter = nil } }
        let limit = MonotonicInstant(deadline)
        repeat { if let next = next(hasBegun) { return next } } while try await waiter.wait(until: limit)
        return next(hasBegun)
    }
}

/// A stream of an asker. The release gives up what is left of it.
final class NATSStream: StreamSource {
    private let asked: AskedStream
    private let number: UInt64
    private let route: NATSRoute

    init(_ asked: AskedStream, _ number: UInt64, _ route: NATSRoute) {
        (self.asked, self.number, self.route) = (asked, number, route)
    }

    // The server learns that all elements were taken, or that nobody takes more.
    deinit { route.connection.release(number) }

    /// Suspends until the server has begun.
    nonisolated(nonsending) func begin(before deadline: ContinuousClock.Instant) async throws {
        switch try await asked.next(hasBegun: false, before: deadline, on: route.connection.runtime) {
        case .begun: return
        case .end(let end):
            guard try isComplete(end) else { return }
            throw PortError.becameInvalid(port: route.service)
        case .elements: throw PortError.connectionLost(port: route.service)
        case nil: throw PortError.receiveTimedOut(port: route.service)
        }
    }

    nonisolated(nonsending) func nextMessage(
        before deadline: ContinuousClock.Instant?
    ) async throws -> MachPort.Message? {
        switch try await asked.next(hasBegun: true, before: deadline, on: route.connection.runtime) {
        case .elements(let message, let taken):
            if let taken { route.connection.tellTaken(taken, of: number) }
            return message
        case .end(let end):
            _ = try isComplete(end)
            return nil
        case .begun, nil: throw StreamTimedOut()
        }
    }

    /// - Throws: The error that ends the stream.
    private func isComplete(_ end: AskedStream.End) throws -> Bool {
        switch end {
        case .complete: return true
        case .failed(let failure): throw PortError.failed(port: route.service, failure)
        case .answer(let answer): throw route.error(of: answer)
        case .broken: throw PortError.connectionLost(port: route.service)
        case .ended(let reason): throw route.error(of: reason)
        }
    }
}
