import RunLoopLocks
import RunLoops

/// Answers questions about the ports of a runtime, on the housekeeping thread: bounded in number, and without waiting.
final class Inspector: Sendable {
    let context: ReceiveContext
    let statistics: StatisticsCollector
    let pending: PendingReplies
    private let notices: RequestNotices
    let loops: ObservedLoops
    let pools = ReportedPools()
    let services = Reports<[String: PortCounters.Service]>()
    let turns: InspectionTurns

    private let open = Lock<[Effort: [Incarnation: Int]]>([:])
    private let recordings = Lock(0)
    /// By the number of the port.
    private let taps = Lock<[UInt64: PortTap]>([:])

    /// The owner's cost of a question. Each kind has a bound of its own, so that none prevents short observations.
    private enum Effort {
        case short
        case long
        case stream
        /// The answer that the owner is busy.
        case refusal

        /// The most questions of a process that wait for their answers. The owner answers further questions with ``busy``,
        /// and beyond the bound of refusals not at all.
        var mostOfOne: Int { self == .long ? 16 : 64 }
        /// The most questions of all processes together.
        var most: Int { 4 * mostOfOne }
    }

    /// The longest short observation. Tools that ask about all ports observe for no longer.
    private static let shortObservation = Duration.milliseconds(500)
    private static let mostRecorders = 4

    init(
        _ context: ReceiveContext, _ statistics: StatisticsCollector, _ pending: PendingReplies,
        _ notices: RequestNotices
    ) {
        (self.context, self.statistics) = (context, statistics)
        (self.pending, self.notices) = (pending, notices)
        loops = ObservedLoops(context.housekeeping)
        turns = InspectionTurns(context.housekeeping)
    }

    /// Drops the work that is left, which retains the runtime's parts.
    func close() { turns.close() }

    /// Answers a question. A malformed one gets no answer, and neither does a process that does not own the port for the
    /// answers.
    func asked(_ packet: QuestionPacket, by asker: Incarnation) {
        guard packet.answers.id.incarnation == asker,
            let question = BoundedCoding.decode(PortQuestion.self, from: packet.question)
        else { return }
        let effort: Effort =
            switch question {
            case .statistics: .short
            case .info(let duration): duration > Self.shortObservation ? .long : .short
            case .recordings, .monitor: .stream
            }
        guard let answer = answer(to: packet, effort) else { answer(to: packet, .refusal)?.send(.busy); return }
        turns.add { [self] in reply(to: question, of: packet.number, answer) }
    }

    private func reply(to question: PortQuestion, of number: UInt64, _ answer: AnswerSender) {
        guard let port = context.ports.port(number), port.isValid else { return answer.send(.noPort) }
        switch question {
        case .statistics:
            statistics.collect(for: number) { found in
                if let statistics = found.statistics { answer.send(statistics) } else { answer.send(.noPort) }
            }
        case .info(let duration):
            PortObservation(port, self, for: duration).begin { info in
                if let info { answer.send(info) } else { answer.send(.noPort) }
            }
        case .recordings(let duration): record(port, for: duration, answer)
        case .monitor(let filter): monitor(port, filter, answer)
        }
    }

    private func record(_ port: Receiver, for duration: Duration, _ answer: AnswerSender) {
        let mayBegin = recordings.withLock { count in
            defer { count = min(count + 1, Self.mostRecorders) }
            return count < Self.mostRecorders
        }
        guard mayBegin else { return answer.send(.busy) }
        let recording = RecordingSender(of: port.takers.look.places.map(\.loop), to: answer)
        let end: @Sendable () -> Void = { [weak self, weak recording] in
            if recording?.end() == true { self?.recordings.withLock { $0 -= 1 } }
        }
        answer.asker.onInvalidation { [context] in try? context.housekeeping.perform(end) }
        // Keeps the recording.
        context.housekeeping.perform(after: min(duration, PortQuestion.longestRecording)) {
            withExtendedLifetime(recording, end)
        }
    }

    private func monitor(_ port: Receiver, _ filter: PortEvent.Filter, _ answer: AnswerSender) {
        let number = port.id.number
        let tap = taps.withLock { taps in
            let tap = taps[number] ?? PortTap(port, notices)
            taps[number] = tap
            return tap
        }
        // The housekeeping thread adds and removes monitors, so that none is added to a tap that its port has lost.
        let stream = EventStream(filter, to: answer, context.housekeeping) { [context, weak self, weak tap] stream in
            try? context.housekeeping.perform { [weak self, weak tap] in
                if let tap { self?.remove(stream, from: tap, of: number) }
            }
        }
        if tap.add(stream) { stream.begin() } else { answer.send(.busy) }
    }

    private func remove(_ stream: EventStream, from tap: PortTap, of number: UInt64) {
        if tap.remove(stream) { taps.withLock { if $0[number] === tap { $0[number] = nil } } }
    }

    /// - Returns: Nil when the asker, or all together, have as many open questions as the owner takes.
    private func answer(to packet: QuestionPacket, _ effort: Effort) -> AnswerSender? {
        let asker = packet.answers.id.incarnation
        guard begin(effort, asker) else { return nil }
        return AnswerSender(to: context.channels.channel(to: packet.answers)) { [weak self] in
            self?.end(effort, asker)
        }
    }

    private func begin(_ effort: Effort, _ asker: Incarnation) -> Bool {
        open.withLock { open in
            let all = open[effort] ?? [:]
            guard all[asker, default: 0] < effort.mostOfOne, all.values.reduce(0, +) < effort.most else { return false }
            open[effort, default: [:]][asker, default: 0] += 1
            return true
        }
    }

    private func end(_ effort: Effort, _ asker: Incarnation) {
        open.withLock { open in
            let left = (open[effort]?[asker] ?? 1) - 1
            open[effort]?[asker] = left > 0 ? left : nil
        }
    }

    /// Whether nobody waits for the reply to a request.
    func isCancelled(_ request: RequestRecords.Entry) -> Bool {
        context.channels.existing(request.asker)?.isValid == false || notices.isCancelled(request.id)
    }

    /// The number of questions that wait for their answers.
    var openCount: Int { open.withLock { $0.values.reduce(0) { $0 + $1.values.reduce(0, +) } } }
}
