import CRunLoopShims
import RunLoopLocks

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
                // At once: the hub's thread may still hold the watch, and the caller may want the signal's own action.
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

    /// Has the hub's thread take the watched signals and no others, which may be meant to wait.
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
