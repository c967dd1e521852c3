import CRunLoopShims
import RunLoopLocks

/// Signals of the process, for tasks.
///
///     let signals = try SignalSequence([SIGTERM, SIGINT])
///     for await signal in signals { print("signal \(signal)") }
///
/// The sequence keeps each signal that comes after it was made until a task takes it. A signal that comes before has its
/// default action, such as ending the process, so make the sequence before the work that it is to end.
/// The kernel merges signals of one number while the first is not delivered; they count as one.
///
/// Until the last copy of the sequence is released, the signals' default actions do not happen. Programs started
/// meanwhile and forked children do not inherit this. Several sequences and ``RunLoopSource1/signal(_:handler:)``
/// may watch one signal; each gets it. Of several tasks with one sequence, one gets it. Tasks that wait hold no thread.
public struct SignalSequence: AsyncSequence, AsyncIteratorProtocol, Sendable {
    private let subscription: Subscription

    /// Starts to watch the signals.
    /// - Throws: ``RunLoopError``: `signalNotWatchable`, `tooManySignalSources`, `outOfDescriptors`, `outOfThreads` or
    ///   `forked`. Then none of the signals is watched.
    public init(_ signals: [Int32]) throws(RunLoopError) { subscription = try Subscription(signals) }

    /// Starts to take signals.
    public func makeAsyncIterator() -> SignalSequence { self }

    /// Suspends until there is a signal, and takes it; nil when the task was cancelled and there is none.
    public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Int32? {
        await subscription.inbox.value()
    }

    /// Suspends until there is a signal, and takes it. For a program that works until it is asked to stop.
    /// - Throws: `CancellationError` when the task was cancelled and there is no signal.
    public nonisolated(nonsending) func wait() async throws(CancellationError) -> Int32 {
        guard let signal = await subscription.inbox.value() else { throw CancellationError() }
        return signal
    }
}

/// Gives signals to an inbox as long as the object lives.
private final class Subscription: Sendable {
    let inbox = SignalHub.Inbox(SignalInbox()) { $0.take() }

    init(_ signals: [Int32]) throws(RunLoopError) {
        if crl_is_forked() { throw .forked }
        try SignalHub.shared.add(inbox, for: signals)
    }

    deinit { if !crl_is_forked() { SignalHub.shared.remove(inbox) } }
}

/// The thread that waits for the signals of all sequences, and the inboxes that it fills.
final class SignalHub: Sendable {
    typealias Inbox = AwaitedState<SignalInbox, Int32>

    private struct Watched {
        let watch: SignalWatch
        let source: ThreadRunLoop.Source1
        var inboxes: [Inbox] = []
    }

    private struct State {
        var thread: RunLoopThread?
        var watched: [Int32: Watched] = [:]

        /// Returns what to release after the lock.
        mutating func remove(_ inbox: Inbox) -> [Watched] {
            for signal in watched.keys { watched[signal]?.inboxes.removeAll { $0 === inbox } }
            let unused = watched.values.filter(\.inboxes.isEmpty)
            for one in unused {
                watched[one.watch.signal] = nil
                // At once, because the hub's thread may still hold the watch, and the caller may want the default action.
                one.watch.end()
            }
            return unused
        }
    }

    static let shared = SignalHub()

    private let state = Lock(State())

    func add(_ inbox: Inbox, for signals: [Int32]) throws(RunLoopError) {
        do throws(RunLoopError) {
            for signal in Set(signals) { try add(inbox, for: signal) }
        } catch {
            remove(inbox)
            throw error
        }
    }

    private func add(_ inbox: Inbox, for signal: Int32) throws(RunLoopError) {
        try state.withLock { (state) throws(RunLoopError) in
            if state.watched[signal] == nil { state.watched[signal] = try watch(signal, on: thread(&state).loop) }
            state.watched[signal]?.inboxes.append(inbox)
        }
    }

    private func thread(_ state: inout State) throws(RunLoopError) -> RunLoopThread {
        if let thread = state.thread { return thread }
        let thread = try RunLoopThread(name: "signals")
        state.thread = thread
        return thread
    }

    private func watch(_ signal: Int32, on loop: ThreadRunLoop) throws(RunLoopError) -> Watched {
        let watch = try SignalWatch(signal)
        let source = ThreadRunLoop.Source1(descriptor: watch.event.descriptor, label: "signal \(signal)") { _ in
            let count = watch.event.clear()
            for inbox in self.inboxes(for: signal) { inbox.change { $0.put(signal, count) } }
            return count > 0
        }
        try loop.add(source)
        // A process may have been started with the signal blocked, and tasks' threads block all.
        try loop.perform { self.unblockSignals() }
        return Watched(watch: watch, source: source)
    }

    private func inboxes(for signal: Int32) -> [Inbox] {
        state.withLock { $0.watched[signal]?.inboxes ?? [] }
    }

    /// Unblocks the watched signals on the hub's thread, and blocks all others, which may be meant to wait.
    private func unblockSignals() {
        let signals = state.withLock { Array($0.watched.keys) }
        crl_signal_unblock_only(signals, Int32(signals.count))
    }

    func remove(_ inbox: Inbox) {
        let (unused, thread) = state.withLock { ($0.remove(inbox), $0.thread) }
        for one in unused { one.source.invalidate() }
        if !unused.isEmpty { try? thread?.loop.perform { self.unblockSignals() } }
    }
}

/// The signals that a sequence's tasks have not taken, with one entry a signal, so that their number is bounded.
struct SignalInbox: Sendable {
    /// In the order of their first arrivals.
    private var untaken: [(signal: Int32, count: UInt64)] = []

    mutating func put(_ signal: Int32, _ count: UInt64) {
        if let place = untaken.firstIndex(where: { $0.signal == signal }) {
            untaken[place].count += count
        } else if count > 0 {
            untaken.append((signal, count))
        }
    }

    mutating func take() -> Int32? {
        guard let first = untaken.first else { return nil }
        if first.count > 1 { untaken[0].count -= 1 } else { untaken.removeFirst() }
        return first.signal
    }
}
