import Ports

extension PortInfo {
    /// The condition of a port, in a word.
    public enum Condition: String, Sendable, Encodable {
        /// The port has messages that wait, and none was taken during the observation; or a handler has had one message for
        /// ``PortInfo/longHandling`` or more, while no other waits.
        case stuck
        /// Nobody takes the port's messages.
        case unserved
        /// The owner's process is stopped.
        case stopped
        /// The owner does not answer.
        case silent
        /// Nobody could ask the owner: it answers others, or the asker lacks something.
        case unknown
        /// Messages are taken, and more wait than are soon done.
        case flooded
        /// A request, of those that may not last, has been without its reply for ``PortInfo/longHandling`` or more. The
        /// same time counts for a message without a wish for a reply in a task of `serve`.
        case slow
        /// A message is being handled, or waits for its reply, and no other waits; or all handlers are at work, and none
        /// of them for long. With `isReceiverAway` perhaps not any more.
        case busy
        /// Somebody serves the port, or nothing waits there.
        case served
    }

    /// Two seconds. A port is ``Condition/stuck`` when a handler has had one message for this time, and
    /// ``Condition/slow`` when a request has been without its reply for this time.
    public static let longHandling = Duration.seconds(2)

    /// The state of the port's queue.
    public var statistics: PortStatistics { PortStatistics(received: queue.received, waiting: queue.waiting) }

    /// Whether nothing is left that could take a message: no loop that runs in the port's mode, no queue, no wait.
    public var isUnserved: Bool {
        let hasLoop = takers.hasHandler && takers.loops.contains { $0.serves }
        // Without a handler, a loop's thread may be about to see that there is none.
        let isHandling = takers.hasHandler && takers.handlingThreads > 0
        return !hasLoop && !isHandling && (takers.queue == nil || !takers.hasHandler) && takers.descriptors == 0
            && takers.waitingThreads + takers.waitingTasks + takers.iteratingTasks == 0 && takers.handlers == nil
            && !takers.isReceiverAway && queue.handled == 0
    }

    /// Whether too many messages wait, and stay too many: a quarter of the limit, or a hundred. A sender that waits for room
    /// goes on when half of the limit is taken, and may be late.
    private var isFlooded: Bool {
        min(queue.waiting, queue.waitingBefore) >= max(2, min(queue.limit / 4, 100))
    }

    /// The condition of the port.
    public var condition: Condition {
        if isUnserved { return .unserved }
        if queue.observed > .zero, queue.handled == 0 {
            if queue.waiting > 0 {
                guard isFull, oldestRequest != nil, !isSlow else { return .stuck }
                return isFlooded ? .flooded : .busy
            }
            if isHandling { return handlingTime >= Self.longHandling ? .stuck : .busy }
        }
        if isFlooded { return .flooded }
        if isSlow { return .slow }
        let isBusy =
            takers.isReceiverAway && queue.handled == 0 || oldestRequest != nil || takers.handlers?.count ?? 0 > 0
        return isBusy && queue.waiting == 0 ? .busy : .served
    }

    /// The oldest request in progress whose reply is due.
    var oldestRequest: Request? { requests.oldest.first { !$0.mayLast && !$0.isReplying } }

    /// Whether a request has waited for long, or a task of `serve` has a message for long.
    var isSlow: Bool {
        oldestRequest.map { $0.age >= Self.longHandling } ?? false
            || takers.handlers != nil && handling.contains { $0.age >= Self.longHandling }
    }

    /// Whether no handler is left for another request.
    var isFull: Bool { takers.handlers.map { $0.fullLane != nil || $0.count >= $0.limit } ?? false }

    /// A lower bound for the time in which a message has been handled.
    var handlingTime: Duration {
        let busyFor = takers.loops.filter(\.serves).compactMap(\.busyFor).max() ?? .zero
        return max(queue.observed, busyFor, handling.first?.age ?? .zero)
    }

    /// The messages that came during the observation.
    var recentlySent: Int { senders.reduce(0) { $0 + $1.recently } }

    /// The messages of all senders in the sample of those that were taken, ``Sender/taken``.
    package var takenInSample: Int { senders.reduce(0) { $0 + $1.taken } }

    /// Whether at least as many messages came during the observation as were taken.
    var comesFast: Bool { recentlySent > 0 && recentlySent >= queue.handled }

    /// The process that has sent most of the messages that wait. Among the senders that may have sent that many, it is the
    /// one that has sent most just now, when messages come as fast as they are taken; otherwise the one of whom most were
    /// taken. Nil when nobody is known to have sent them, and several may have.
    public var busiestSender: Sender? {
        func mayWait(_ sender: Sender) -> Int { min(sender.sinceEmpty, queue.waiting) }
        let many = (senders.map(mayWait).max() ?? 0) / 2
        let suspects = senders.filter { mayWait($0) >= many }
        let busiest =
            comesFast
            ? suspects.max { ($0.recently, $0.taken, $0.sent) < ($1.recently, $1.taken, $1.sent) }
            : suspects.max { ($0.taken, $0.sinceEmpty, $0.sent) < ($1.taken, $1.sinceEmpty, $1.sent) }
        let isGuess = busiest?.sent == 0 && suspects.count { $0.sent == 0 } > 1
        return isGuess ? nil : busiest
    }
}
