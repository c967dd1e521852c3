import RunLoopLocks
import RunLoops

/// What a process may ask another of the same user about a port. A new kind is a case here, and one in ``Inspector``.
enum InspectionKind: UInt8 {
    /// By whom the port is served. The argument is how long the owner looks; the answer a ``PortService``.
    case service = 1
    /// What the loops that have the port do. The argument is how long they are recorded; the answer are parts of
    /// recordings, and a last one without.
    case recordings = 3
    /// Which messages the port takes, until the asker's port for the answers ends. The argument is a ``PortEvent/Filter``;
    /// each part of the answer is a ``PortEvents``, the first without any.
    case monitor = 2
    /// How many messages the port has taken, and how many wait. The answer is a ``PortStatistics``.
    case statistics = 4
}

/// Answers questions about the ports of a runtime, on the housekeeping thread: bounded in number, and without waiting.
final class Inspector: Sendable {
    let context: ReceiveContext
    let statistics: StatisticsCollector
    let pending: PendingReplies
    let loops: ObservedLoops

    private let accepted: AcceptedRequests
    private let open = Lock<[Effort: [Incarnation: Int]]>([:])
    private let recordings = Lock(0)
    /// By the number of the port.
    private let taps = Lock<[UInt64: PortTap]>([:])

    /// What a question costs its owner. Each kind has a bound of its own, so that none keeps short looks from being made.
    private enum Effort {
        case shortLook
        case longLook
        case stream
        /// The answer that the owner is busy.
        case refusal

        /// The most questions of a process that wait for their answers. Further ones are told that the owner is busy, and
        /// those that are too many for that have no answer.
        var mostOfOne: Int { self == .longLook ? 16 : 64 }
        /// The most of all processes together.
        var most: Int { 4 * mostOfOne }
    }

    /// The longest short look: those of tools that look at all ports are no longer.
    private static let shortLook = Duration.milliseconds(500)
    private static let mostRecordings = 4

    init(
        _ context: ReceiveContext, _ statistics: StatisticsCollector, _ pending: PendingReplies,
        _ accepted: AcceptedRequests
    ) {
        (self.context, self.statistics) = (context, statistics)
        (self.pending, self.accepted) = (pending, accepted)
        loops = ObservedLoops(context.housekeeping)
    }

    /// The process that asks is to have the port for the answers.
    func asked(_ question: InspectionQuestion, by asker: Incarnation) {
        guard question.answers.id.incarnation == asker else { return }
        var arguments = FieldReader(question.arguments)
        // A kind that does not exist gets no answer.
        guard let kind = InspectionKind(rawValue: question.kind) else { return }
        let duration = kind == .monitor ? .zero : arguments.duration() ?? .zero
        let effort: Effort =
            switch kind {
            case .monitor, .recordings: .stream
            case .service where duration > Self.shortLook: .longLook
            case .service, .statistics: .shortLook
            }
        guard let answer = answer(to: question, effort) else { answer(to: question, .refusal)?.end(.busy); return }
        guard let port = context.ports.port(question.number), port.isValid else { return answer.end(.noPort) }
        switch kind {
        case .service:
            ServiceLook(port, self, for: duration).begin { service in
                answer.end(service == nil ? .noPort : .last, service?.bytes ?? [])
            }
        case .recordings: record(port, for: duration, answer)
        case .monitor: monitor(port, PortEvent.Filter(from: &arguments), answer)
        case .statistics:
            statistics.collect(for: question.number) { found in
                answer.end(found.statistics == nil ? .noPort : .last, found.statistics?.bytes ?? [])
            }
        }
    }

    private func record(_ port: Receiver, for duration: Duration, _ answer: InspectionAnswer) {
        let mayBegin = recordings.withLock { count in
            defer { count = min(count + 1, Self.mostRecordings) }
            return count < Self.mostRecordings
        }
        guard mayBegin else { return answer.end(.busy) }
        let recording = PortRecording(of: port.places.map(\.loop), to: answer)
        let end: @Sendable () -> Void = { [weak self, weak recording] in
            if recording?.end() == true { self?.recordings.withLock { $0 -= 1 } }
        }
        answer.asker.onInvalidation { [context] in try? context.housekeeping.perform(end) }
        // Keeps the recording.
        context.housekeeping.perform(after: min(duration, PortRecording.longest)) {
            withExtendedLifetime(recording, end)
        }
    }

    private func monitor(_ port: Receiver, _ filter: PortEvent.Filter, _ answer: InspectionAnswer) {
        let number = port.id.number
        let tap = taps.withLock { taps in
            let tap = taps[number] ?? PortTap(port, accepted)
            taps[number] = tap
            return tap
        }
        // One thread adds and removes, so that no monitor is added to a tap that its port has no more.
        let stream = EventStream(filter, to: answer, context.housekeeping) { [context, weak self, weak tap] stream in
            try? context.housekeeping.perform { [weak self, weak tap] in
                if let tap { self?.remove(stream, from: tap, of: number) }
            }
        }
        if tap.add(stream) { stream.begin() } else { answer.end(.busy) }
    }

    private func remove(_ stream: EventStream, from tap: PortTap, of number: UInt64) {
        if tap.remove(stream) { taps.withLock { if $0[number] === tap { $0[number] = nil } } }
    }

    /// - Returns: Nil when the asker, or all together, have as many open questions as the owner takes.
    private func answer(to question: InspectionQuestion, _ effort: Effort) -> InspectionAnswer? {
        let asker = question.answers.id.incarnation
        guard begin(effort, asker) else { return nil }
        return InspectionAnswer(to: context.channels.channel(to: question.answers)) { [weak self] in
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
    func isCancelled(_ request: TakenRequests.Entry) -> Bool {
        context.channels.existing(request.asker)?.isValid == false
            || accepted.isCancelled(.init(asker: request.asker.incarnation, number: request.number))
    }

    /// The questions that wait for their answers.
    var openCount: Int { open.withLock { $0.values.reduce(0) { $0 + $1.values.reduce(0, +) } } }
}
