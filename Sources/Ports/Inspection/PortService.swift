/// By whom a port's messages are taken, and how that goes: the answer of the port's owner.
public struct PortService: Sendable, Hashable {
    /// A loop that has the port.
    public struct Loop: Sendable, Hashable {
        /// The number of the loop's thread, in the owner's process.
        public let thread: Int
        /// The thread's name.
        public let threadName: String
        /// The modes that have the port.
        public let modes: [String]
        /// The modes of the runs in progress, the innermost last; empty for a loop that does not run.
        public let running: [String]
        /// Whether the loop sleeps, until one of its items has work.
        public let isWaiting: Bool
        /// The item in whose callout the loop is, or the kind of its work; nil for a loop that sleeps or does not run.
        public let callout: String?
        /// How long the pass in progress has lasted, at least; nil for a loop that sleeps or does not run.
        public let busyFor: Duration?
        /// Whether the pass began before the owner first looked at the loop, and so may have lasted longer.
        public let isBusyForLonger: Bool
        /// Whether the thread computes; else it waits in the kernel.
        public let isComputing: Bool

        /// Whether the loop runs in a mode that has the port.
        public var serves: Bool { running.last.map(modes.contains) ?? false }
    }

    /// The dispatch queue of the port.
    public struct Queue: Sendable, Hashable {
        /// The queue's label.
        public let label: String
        /// Whether the queue is handling messages, or was asked to.
        public let isBusy: Bool
    }

    /// A process that sends to the port.
    public struct Sender: Sendable, Hashable {
        /// The process id; 0 when the kernel does not say.
        public let pid: Int32
        /// The path of its program, or the name alone when the process has ended; nil when the system does not say.
        public let program: String?
        /// The messages that it has sent, since it is connected; 0 when it has ended before anybody asked for their number.
        public let sent: Int
        /// Those of them that it has sent while the owner looked.
        public let recently: Int
        /// Its messages among the first thousand that were taken while the owner looked. A port takes from all senders
        /// in turn: who has messages in the queue has some among them.
        public let taken: Int
        /// The messages that it has sent since the queue was last seen empty: at most so many of them wait.
        public let sinceEmpty: Int
        /// Whether the process has ended. Messages of it may wait.
        public let hasEnded: Bool
        /// Its requests that were taken, and have no reply yet.
        public internal(set) var requests = 0
    }

    /// A port of another service that the owner waits for.
    public struct Awaited: Sendable, Hashable {
        /// The port's number and its process, as in ``PortID/description``.
        public let port: String
        /// The port as the owner knows it, as in ``PortIdentity/description``.
        public let title: String
        /// The requests to the port that have no reply yet.
        public let replies: Int
        /// The threads and tasks that wait for room at the port.
        public let senders: Int
    }

    /// A request that was taken, and has no reply yet.
    public struct Request: Sendable, Hashable {
        /// The message's id.
        public let id: UInt32
        /// The name of the request's type; nil for a request that is not typed.
        public let name: String?
        /// The process id of the asker; 0 when the owner does not know it.
        public let pid: Int32
        /// The name of the asker's program; nil when the owner does not know it.
        public let program: String?
        /// The time since the request was taken.
        public let age: Duration
        /// Whether it may last as long as anybody likes, as a stream's: ``RequestKind/mayLast``.
        public let mayLast: Bool
        /// Whether its reply was made, and waits for room at the asker's port.
        public let isReplying: Bool
        /// Whether the asker has given up, or has ended.
        public let isCancelled: Bool
    }

    /// A message in a handler that has not returned. Of a loop, a queue or a thread, the first in hand of those that it
    /// handles; of tasks in `serve`, those without a wish for a reply: the others are ``PortService/requests``.
    public struct Handled: Sendable, Hashable {
        /// The message's id.
        public let id: UInt32
        /// The name of the message's type; nil for a message that is not typed.
        public let name: String?
        /// Whether the sender waits for a reply.
        public let isRequest: Bool
        /// The process id of the sender; 0 when the owner does not know it.
        public let pid: Int32
        /// The name of the sender's program; nil when the owner does not know it.
        public let program: String?
        /// The time since the message was taken.
        public let age: Duration
        /// Whether the message was taken before the owner first looked, and so may be older.
        public let isOlder: Bool
    }

    /// The handlers of `serve` or of a `RequestServer`.
    public struct Handlers: Sendable, Hashable {
        /// Those at work; a `RequestServer` counts its streams apart.
        public let count: Int
        /// The most at a time: `atMost`, and the limits of the lanes in use.
        public let limit: Int
        /// The name of a lane that has no room, so that nothing more is taken; nil while requests are taken. Empty for the
        /// requests without a lane.
        public let fullLane: String?

        init(count: Int, limit: Int, fullLane: String? = nil) {
            (self.count, self.limit, self.fullLane) = (count, limit, fullLane)
        }
    }

    /// The owner's process, as the kernel tells the process that asks; 0 when the kernel does not say.
    public internal(set) var pid: Int32
    /// Whether the port has a handler or a delegate. Without one, messages wait for threads and tasks that take them.
    public let hasHandler: Bool
    /// The loops that have the port.
    public let loops: [Loop]
    /// The dispatch queue that the port has.
    public let queue: Queue?
    /// The threads that wait for a message now, in `receive(before:)`.
    public let waitingThreads: Int
    /// The tasks that wait for a message now, as in `for await message in port.messages`.
    public let waitingTasks: Int
    /// The tasks in such a loop, also those that handle a message now.
    public let iteratingTasks: Int
    /// Whether a thread or a task has taken the last message with `receive(before:)`, outside a `for await`, and has not
    /// asked for another since: it handles the message, or has ended.
    public let isReceiverAway: Bool
    /// The ``PortDescriptor``s of the port, by which other loops serve it: poll, GLib, Foundation…
    public let descriptors: Int
    /// The threads that are taking or handling messages now.
    public let handlingThreads: Int

    /// For how long the owner has looked at the port. Zero when nothing was to be seen.
    public let observed: Duration
    /// The messages that were taken meanwhile.
    public let handled: Int
    /// The messages that waited before.
    public let waitingBefore: Int
    /// The messages that were taken since the port was made.
    public let received: Int
    /// The messages that wait.
    public let waiting: Int
    /// The messages of one sender that wait before the sender waits.
    public let queueLimit: Int
    /// The processes that send to the port, who has sent most first.
    public let senders: [Sender]
    /// The ports that the owner's process waits for.
    public let awaited: [Awaited]

    /// The handlers of the `serve` in progress; nil for none.
    public let handlers: Handlers?
    /// The requests in progress, without those that may last: of a message port, those that were taken, and whose reply
    /// has not left.
    public let requestCount: Int
    /// The requests in progress that may last, such as streams.
    public let lastingCount: Int
    /// The sixteen oldest requests in progress, then the sixteen oldest of those that may last or have their replies made.
    public let requests: [Request]
    /// Those of the ``waitingTasks`` that wait for a `serve`.
    let servingTasks: Int
    /// The messages in handlers, the oldest first, and of many the sixteen oldest.
    public internal(set) var handling: [Handled] = []

    /// The state of the port's queue.
    public var statistics: PortStatistics { PortStatistics(received: received, waiting: waiting) }
}

extension PortService {
    /// What is to be said of a port.
    public enum Condition: String, Sendable {
        /// Somebody serves the port, or nothing waits there.
        case served
        /// Nobody takes the port's messages.
        case unserved
        /// A message is being handled, or waits for its reply, and no other waits; or all handlers are at work, and none
        /// of them for long. With ``PortService/isReceiverAway`` perhaps not any more.
        case busy
        /// A request, of those that may not last, has been without its reply for ``PortService/longHandling`` or more. The
        /// same time counts for a message without a wish for a reply in a task of `serve`.
        case slow
        /// Somebody serves the port, and has taken nothing while the owner looked; or has handled one message for
        /// ``PortService/longHandling`` or more, while no other waits.
        case stuck
        /// Messages are taken, and more wait than are soon done.
        case flooded
    }

    /// Whether nothing is left for a message to be taken by: no loop that runs in the port's mode, no queue, no wait.
    public var isUnserved: Bool {
        let hasLoop = hasHandler && loops.contains { $0.serves }
        return !hasLoop && (queue == nil || !hasHandler) && descriptors == 0
            && waitingThreads + waitingTasks + iteratingTasks == 0 && handlers == nil && !isReceiverAway
            && handlingThreads == 0 && handled == 0
    }

    /// Whether too many messages wait, and stay so many: half of the limit, or a hundred.
    private var isFlooded: Bool { min(waiting, waitingBefore) >= max(2, min(queueLimit / 2, 100)) }

    /// What is to be said of the port.
    public var condition: Condition {
        if isUnserved { return .unserved }
        if observed > .zero, handled == 0 {
            if waiting > 0 {
                guard isFull, oldestRequest != nil, !isSlow else { return .stuck }
                return isFlooded ? .flooded : .busy
            }
            if isHandling { return handlingTime >= Self.longHandling ? .stuck : .busy }
        }
        if isFlooded { return .flooded }
        if isSlow { return .slow }
        let isBusy = isReceiverAway && handled == 0 || oldestRequest != nil || handlers.map { $0.count > 0 } ?? false
        return isBusy && waiting == 0 ? .busy : .served
    }

    /// Two seconds. A port is ``Condition/stuck`` when a handler has had one message for this time, and
    /// ``Condition/slow`` when a request has been without its reply for this time.
    public static let longHandling = Duration.seconds(2)

    /// Whether a thread, or a task in `for await`, handles a message.
    var isHandling: Bool { handlingThreads > waitingThreads || busyTasks > 0 && received > 0 }

    /// About the tasks in `for await` that handle a message: a task may also wait without a `for await`.
    var busyTasks: Int { max(0, iteratingTasks - max(0, waitingTasks - servingTasks)) }

    /// The oldest request in progress whose reply is due.
    var oldestRequest: Request? { requests.first { !$0.mayLast && !$0.isReplying } }

    /// Whether a request has waited for long, or a task of `serve` has a message for long.
    var isSlow: Bool {
        oldestRequest.map { $0.age >= Self.longHandling } ?? false
            || handlers != nil && handling.contains { $0.age >= Self.longHandling }
    }

    /// Whether no handler is left for another request.
    var isFull: Bool { handlers.map { $0.fullLane != nil || $0.count >= $0.limit } ?? false }

    /// How long a message has been handled, at least.
    var handlingTime: Duration {
        max(observed, loops.filter(\.serves).compactMap(\.busyFor).max() ?? .zero, handling.first?.age ?? .zero)
    }

    /// The messages that came while the owner looked.
    var recentlySent: Int { senders.reduce(0) { $0 &+ $1.recently } }

    /// The messages of all senders in the sample of those that were taken, ``Sender/taken``.
    package var takenInSample: Int { senders.reduce(0) { $0 &+ $1.taken } }

    /// Whether as many came while the owner looked as were taken.
    var comesFast: Bool { recentlySent > 0 && recentlySent >= handled }

    /// Who has sent most of the messages that wait. Of those who may have sent so many, the one that has sent most just
    /// now, when messages come as fast as they are taken; else the one of whom most were taken. Nil when nobody is known
    /// to have sent them, and several may have.
    public var busiestSender: Sender? {
        let many = (senders.map(mayWait).max() ?? 0) / 2
        let suspects = senders.filter { mayWait($0) >= many }
        let busiest =
            comesFast
            ? suspects.max { ($0.recently, $0.taken, $0.sent) < ($1.recently, $1.taken, $1.sent) }
            : suspects.max { ($0.taken, $0.sinceEmpty, $0.sent) < ($1.taken, $1.sinceEmpty, $1.sent) }
        let isGuess = busiest?.sent == 0 && suspects.count { $0.sent == 0 } > 1
        return isGuess ? nil : busiest
    }

    /// The most messages of a sender that may wait.
    private func mayWait(_ sender: Sender) -> Int { min(sender.sinceEmpty, waiting) }
}
