import Glibc
import RunLoopLocks
import RunLoops

/// Sends the events of a port to one monitor: few at a time, and one packet after the other.
final class EventStream: Sendable {
    private struct State {
        var pending = PortEvents()
        /// The number of messages among the pending events, without the ends of earlier messages.
        var messageCount = 0
        /// Whether a timer runs for the next packet. There are never two timers, so that the bound holds.
        var hasTimer = false
        var isSending = false

        var hasRoom: Bool { messageCount < EventStream.most && pending.events.count < EventStream.mostEvents }

        /// The end of a sending starts the next timer.
        mutating func startsTimer() -> Bool {
            guard !hasTimer, !isSending, !pending.isEmpty else { return false }
            hasTimer = true
            return true
        }
    }

    let filter: PortEvent.Filter
    private let answer: AnswerSender
    private let housekeeping: Housekeeping
    private let ended: @Sendable (EventStream) -> Void
    private let state = Lock(State())

    /// The period of the packets, and the most messages in one, because a monitor must not cost the owner much.
    private static let period = Duration.milliseconds(50)
    private static let most = 256
    /// The most events in a packet, which also has room for the ends of earlier messages.
    private static let mostEvents = BoundedCoding.most

    /// - Parameter ended: Called when the monitor is gone, perhaps more than once.
    init(
        _ filter: PortEvent.Filter, to answer: AnswerSender, _ housekeeping: Housekeeping,
        ended: @escaping @Sendable (EventStream) -> Void
    ) {
        (self.filter, self.answer) = (filter, answer)
        (self.housekeeping, self.ended) = (housekeeping, ended)
    }

    /// Tells the monitor that it sees everything from now on.
    func begin() {
        answer.asker.onInvalidation { [weak self] in if let self { ended(self) } }
        change { $0.isSending = true }
        send(PortEvents())
    }

    /// Whether there is room for another message. If not, the message is counted as left out.
    func hasRoom() -> Bool {
        change { state in
            if !state.hasRoom { state.pending.lost += 1 }
            return state.hasRoom
        } ?? false
    }

    func add(_ event: PortEvent) {
        change { state in
            let isMessage = event.kind == .message || event.kind == .request
            guard isMessage ? state.hasRoom : state.pending.events.count < Self.mostEvents else {
                state.pending.lost += 1
                return
            }
            state.pending.events.append(event)
            if isMessage { state.messageCount += 1 }
        }
    }

    /// Counts an event that nobody will see.
    func leaveOut() { change { $0.pending.lost += 1 } }

    /// - Returns: Nil in a forked child: another thread of the parent may have held the lock.
    @discardableResult
    private func change<Result>(_ body: (inout State) -> Result) -> Result? {
        let outcome = state.withLockUnlessForked { state in
            let result = body(&state)
            return (result: result, startsTimer: state.startsTimer())
        }
        guard let outcome else { return nil }
        if outcome.startsTimer { housekeeping.perform(after: Self.period) { [weak self] in self?.flush() } }
        return outcome.result
    }

    private func flush() {
        var packet = PortEvents()
        let isReady = state.withLock { state in
            state.hasTimer = false
            guard !state.isSending, !state.pending.isEmpty else { return false }
            (state.isSending, state.messageCount) = (true, 0)
            swap(&packet, &state.pending)
            return true
        }
        if isReady { send(packet) }
    }

    private func send(_ packet: PortEvents) {
        answer.send(packet) { [weak self] isSent in
            guard let self else { return }
            // A monitor that does not read, such as a stopped one, misses the events for which it has no room.
            guard isSent || answer.asker.isValid else { return ended(self) }
            change { state in
                state.isSending = false
                if !isSent { state.pending.lost += packet.lost + packet.events.count }
            }
        }
    }
}
