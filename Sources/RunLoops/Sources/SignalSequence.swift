import CRunLoopShims

/// Signals of the process, for tasks.
///
///     let signals = try SignalSequence([SIGTERM, SIGINT])
///     for await signal in signals { print("signal \(signal)") }
///
/// The sequence keeps each signal that comes after it was made until a task takes it. A signal that comes before has its
/// default action, such as ending the process: make the sequence first, and then what has to be ended in good order.
/// Signals of one number that the kernel has merged, as the first was not delivered yet, count as one.
///
/// Until the last copy of the sequence is released, the signals' default actions do not happen. Programs started
/// meanwhile and forked children do not inherit this. Several sequences and ``ThreadRunLoop/Source1/signal(_:handler:)``
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

    /// Suspends until there is a signal, and takes it: what a program awaits that works until it is asked to stop.
    /// - Throws: `CancellationError`, when the task was cancelled and there is no signal.
    public nonisolated(nonsending) func wait() async throws(CancellationError) -> Int32 {
        guard let signal = await subscription.inbox.value() else { throw CancellationError() }
        return signal
    }
}

/// Has an inbox told of signals as long as the object lives.
private final class Subscription: Sendable {
    let inbox = SignalHub.Inbox(SignalInbox()) { $0.take() }

    init(_ signals: [Int32]) throws(RunLoopError) {
        if crl_is_forked() { throw .forked }
        try SignalHub.shared.add(inbox, for: signals)
    }

    deinit { if !crl_is_forked() { SignalHub.shared.remove(inbox) } }
}
