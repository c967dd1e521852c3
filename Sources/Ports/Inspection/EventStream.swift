import Glibc
import RunLoopLocks
import RunLoops

/// The events of a port on their way to one monitor: few at a time, and one packet of them after the other.
final class EventStream: Sendable {
    private struct State {
        var pending = PortEvents()
        /// The messages among them, without what became of earlier ones.
        var messageCount = 0
        /// The tap's count of skipped messages that the monitor knows.
        var skipped = 0
        var isScheduled = false
        var isSending = false
    }

    let filter: PortEvent.Filter
    private let answer: InspectionAnswer
    private let tap: PortTap
    private let housekeeping: Housekeeping
    private let ended: @Sendable (EventStream) -> Void
    private let state: Lock<State>

    /// How often events go out, and of how many messages at most: they must not cost the owner much.
    private static let period = Duration.milliseconds(50)
    private static let most = 256
    /// A packet has room also for the ends of messages that were told of before.
    private static let mostEvents = FieldWriter.most

    /// - Parameter ended: Called when the monitor is gone. Perhaps more than once.
    init(
        _ filter: PortEvent.Filter, of tap: PortTap, to answer: InspectionAnswer, _ housekeeping: Housekeeping,
        ended: @escaping @Sendable (EventStream) -> Void
    ) {
        (self.filter, self.tap, self.answer) = (filter, tap, answer)
        (self.housekeeping, self.ended) = (housekeeping, ended)
        var state = State()
        state.skipped = tap.skippedCount.load(ordering: .relaxed)
        self.state = Lock(state)
    }

    /// Tells the monitor that it sees everything from now on.
    func begin() {
        answer.asker.onInvalidation { [weak self] in if let self { ended(self) } }
        send(PortEvents())
    }

    /// - Returns: Whether there is room for another message.
    func add(_ event: PortEvent) -> Bool {
        let (hasRoom, isFirst) = state.withLock { state in
            let isMessage = event.kind == .message || event.kind == .request
            guard isMessage ? state.messageCount < Self.most : state.pending.events.count < Self.mostEvents else {
                state.pending.lost += 1
                return (false, false)
            }
            state.pending.events.append(event)
            if isMessage { state.messageCount += 1 }
            return (state.messageCount < Self.most, !exchange(&state.isScheduled, with: true))
        }
        if isFirst { flushLater() }
        return hasRoom
    }

    private func flushLater() { housekeeping.perform(after: Self.period) { [weak self] in self?.flush() } }

    private func flush() {
        let skipped = tap.skippedCount.load(ordering: .relaxed)
        var packet = PortEvents()
        let isReady = state.withLock { state in
            // What is sent comes back here.
            state.isScheduled = state.isSending
            guard !state.isSending else { return false }
            state.pending.lost += skipped - exchange(&state.skipped, with: skipped)
            state.messageCount = 0
            swap(&packet, &state.pending)
            return true
        }
        guard isReady else { return }
        tap.roomWasMade()
        if !packet.events.isEmpty || packet.lost > 0 { send(packet) }
    }

    private func send(_ packet: PortEvents) {
        state.withLock { $0.isSending = true }
        answer.send(.part, packet.bytes) { [weak self] isSent in
            guard let self else { return }
            // A monitor that does not read, as one that is stopped, misses what it has no room for.
            guard isSent || answer.asker.isValid else { return ended(self) }
            let isDue = state.withLock { state in
                state.isSending = false
                if !isSent { state.pending.lost += packet.lost + packet.events.count }
                return state.isScheduled || !isSent && !exchange(&state.isScheduled, with: true)
            }
            if isDue { flushLater() }
        }
    }
}
