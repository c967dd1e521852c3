import RunLoopLocks

/// The signals that a sequence's tasks have not taken, and the tasks that wait for one.
final class SignalInbox: Sendable {
    private struct State {
        /// One entry a signal, however often it came: bounded, in the order of their first arrivals.
        var untaken: [(signal: Int32, count: UInt64)] = []
        var waiters: [(number: UInt64, continuation: CheckedContinuation<Int32?, Never>)] = []
        var lastNumber: UInt64 = 0

        mutating func take() -> Int32? {
            guard let first = untaken.first else { return nil }
            if first.count > 1 { untaken[0].count -= 1 } else { untaken.removeFirst() }
            return first.signal
        }
    }

    private let state = Lock(State())

    func put(_ signal: Int32, _ count: UInt64) {
        let served = state.withLock { state in
            let served = state.waiters.prefix(Int(clamping: count))
            state.waiters.removeFirst(served.count)
            let left = count - UInt64(served.count)
            if let place = state.untaken.firstIndex(where: { $0.signal == signal }) {
                state.untaken[place].count += left
            } else if left > 0 {
                state.untaken.append((signal, left))
            }
            return served
        }
        for waiter in served { waiter.continuation.resume(returning: signal) }
    }

    nonisolated(nonsending) func next() async -> Int32? {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (signal, waits) = state.withLock { state in
                    let signal = state.take()
                    // A task that is cancelled later finds itself among the waiters.
                    let waits = signal == nil && !Task.isCancelled
                    if waits { state.waiters.append((number, continuation)) }
                    return (signal, waits)
                }
                if !waits { continuation.resume(returning: signal) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                state.waiters.firstIndex { $0.number == number }.map { state.waiters.remove(at: $0) }
            }
            waiter?.continuation.resume(returning: nil)
        }
    }
}
