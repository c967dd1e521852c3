/// The owner's answer to the question who takes a port's messages, and how that goes. The module PortsInspection asks.
///
/// `portctl` writes its coding as JSON.
public struct PortInfo: Sendable, Hashable, Codable {
    /// The owner's process, as the kernel tells the process that asks; 0 when the kernel does not say. It is not coded.
    public package(set) var pid: Int32 = 0
    /// The loops, queues, tasks and threads that take the port's messages.
    public let takers: Takers
    /// The port's queue of messages.
    public let queue: Queue
    /// The processes that send to the port. The process that has sent most comes first.
    public let senders: [Sender]
    /// The requests in progress.
    public let requests: Requests
    /// The messages in handlers, the oldest first: at most seventeen.
    public package(set) var handling: [Handled]
    /// The ports that the owner's process waits for.
    public let awaited: [Awaited]
    /// The pools of workers of the owner's process: at most sixteen.
    public var pools: [Pool] { reportedPools ?? [] }
    /// Nil in the answer of an earlier version.
    var reportedPools: [Pool]?
    /// The descriptor of the port's ZeroMQ socket (`ZMQ_FD`) in the owner's process; nil for a port that has ended, and in the
    /// answer of an earlier version.
    public package(set) var descriptor: Int32?

    private enum CodingKeys: String, CodingKey {
        case takers, queue, senders, requests, handling, awaited, reportedPools = "pools", descriptor
    }

    /// A loop that has the port.
    public struct Loop: Sendable, Hashable, Codable {
        /// The number of the loop's thread, in the owner's process.
        public let thread: Int
        /// The thread's name.
        public let threadName: String
        /// The modes that have the port.
        public let modes: [String]
        /// The modes of the runs in progress, the innermost last; empty for a loop that does not run.
        public let running: [String]
        /// Whether the loop sleeps until one of its items has work.
        public let isWaiting: Bool
        /// The item in whose callout the loop is, or the kind of its work; nil for a loop that sleeps or does not run.
        public let callout: String?
        /// A lower bound for the duration of the pass in progress; nil for a loop that sleeps or does not run.
        public let busyFor: Duration?
        /// Whether the pass began before the owner first observed the loop, and so may have lasted longer.
        public let isBusyForLonger: Bool
        /// Whether the thread computes. Otherwise it waits in the kernel.
        public let isComputing: Bool
        /// Whether the loop runs in a mode that has the port.
        public let serves: Bool

        init(
            thread: Int, threadName: String, modes: [String], running: [String], isWaiting: Bool, callout: String?,
            busyFor: Duration?, isBusyForLonger: Bool, isComputing: Bool
        ) {
            (self.thread, self.threadName, self.modes, self.running) = (thread, threadName, modes, running)
            (self.isWaiting, self.callout, self.busyFor) = (isWaiting, callout, busyFor)
            (self.isBusyForLonger, self.isComputing) = (isBusyForLonger, isComputing)
            serves = running.last.map(modes.contains) ?? false
        }

        private enum CodingKeys: String, CodingKey {
            case thread, modes, running, callout, serves
            case threadName = "name", isWaiting = "waits", busyFor = "busyMilliseconds"
            case isBusyForLonger = "busyForLonger", isComputing = "computing"
        }
    }

    /// The loops, queues, tasks and threads that take a port's messages.
    public struct Takers: Sendable, Hashable, Codable {
        /// Whether the port has a handler or a delegate. Without one, messages wait for threads and tasks that take
        /// them.
        public let hasHandler: Bool
        /// The loops that have the port.
        public let loops: [Loop]
        /// The dispatch queue that the port has.
        public let queue: Queue?
        /// The threads that wait for a message now, in `receive(before:)`.
        public let waitingThreads: Int
        /// The tasks that wait for a message now, as in `for await message in port.messages`.
        public let waitingTasks: Int
        /// The ``waitingTasks`` that wait for a `serve`.
        package let servingTasks: Int
        /// The tasks in a `for await` over the messages. Some of them may handle a message now.
        public let iteratingTasks: Int
        /// Whether a thread or a task has taken the last message with `receive(before:)`, outside a `for await`, and
        /// has not asked for another since: it handles the message, or has ended.
        public let isReceiverAway: Bool
        /// The ``PortDescriptor``s of the port, by which other loops serve it: poll, GLib, Foundation…
        public let descriptors: Int
        /// The threads that are taking or handling messages now.
        public let handlingThreads: Int
        /// The handlers of the `serve` in progress; nil for none.
        public let handlers: Handlers?

        private enum CodingKeys: String, CodingKey {
            case hasHandler = "handler", loops, queue, waitingThreads, waitingTasks, servingTasks, iteratingTasks
            case isReceiverAway = "receiverAway", descriptors, handlingThreads, handlers
        }

        /// A dispatch queue.
        public struct Queue: Sendable, Hashable, Codable {
            /// The queue's label.
            public let label: String
            /// Whether the queue is handling messages, or was asked to.
            public let isBusy: Bool

            private enum CodingKeys: String, CodingKey { case label, isBusy = "busy" }
        }

        /// The handlers of `serve` or of a `RequestServer`.
        public struct Handlers: Sendable, Hashable, Codable {
            /// The number of handlers at work. The streams of a `RequestServer` that have no lane are not counted.
            public let count: Int
            /// The most handlers at a time: `atMost`, and the limits of the lanes in use.
            public let limit: Int
            /// The name of a lane that has no room, so that nothing more is taken; nil while requests are taken. The
            /// name is empty for the requests without a lane.
            public let fullLane: String?

            init(count: Int, limit: Int, fullLane: String? = nil) {
                (self.count, self.limit, self.fullLane) = (count, limit, fullLane)
            }
        }
    }

    /// The state of the port's queue, and how it changed while the owner observed the port.
    public struct Queue: Sendable, Hashable, Codable {
        /// The messages that were taken since the port was made.
        public let received: Int
        /// The messages that wait.
        public let waiting: Int
        /// The messages of one sender that wait before the sender waits.
        public let limit: Int
        /// The time for which the owner has observed the port; zero when there was nothing to observe.
        public let observed: Duration
        /// The messages that were taken during the observation.
        public let handled: Int
        /// The messages that waited before the observation.
        public let waitingBefore: Int

        private enum CodingKeys: String, CodingKey {
            case received, waiting, limit, observed = "observedMilliseconds", handled, waitingBefore
        }
    }

    /// A process that sends to the port.
    public struct Sender: Sendable, Hashable, Codable {
        /// The process id; 0 when the kernel does not say.
        public let pid: Int32
        /// The path of the program, or only its name when the process has ended; nil when the system does not say.
        public let program: String?
        /// The messages that the process has sent since it is connected; 0 when it ended before the owner asked for the
        /// number.
        public let sent: Int
        /// The messages that the process has sent during the observation.
        public let recently: Int
        /// The sender's messages among the first thousand that were taken during the observation. A port takes from all
        /// senders in turn, so a sender with messages in the queue has some among them.
        public let taken: Int
        /// The messages that the process has sent since the queue was last seen empty: an upper bound on the number of
        /// its messages that wait.
        public let sinceEmpty: Int
        /// Whether the process has ended. Messages of it may wait.
        public let hasEnded: Bool
        /// The sender's requests that were taken, and have no reply yet.
        public let requests: Int
        /// Whether the sender's messages come by shared memory. Without it, another process sends by ZeroMQ.
        public var usesSharedMemory: Bool { sharedMemory ?? false }
        private let sharedMemory: Bool?
        /// The sender's messages that wait and have descriptors, or memory. The kernel keeps those until the port takes the
        /// message.
        public var withDescriptors: Int { descriptors ?? 0 }
        private let descriptors: Int?
        /// The bytes of the sender's messages that wait in memory of their own: those of 16 MiB and more that were copied.
        public var memory: Int { memoryBytes ?? 0 }
        private let memoryBytes: Int?

        init(
            pid: Int32, program: String?, sent: Int, recently: Int, taken: Int, sinceEmpty: Int, hasEnded: Bool,
            requests: Int, usesSharedMemory: Bool = false, withDescriptors: Int = 0, memory: Int = 0
        ) {
            (self.pid, self.program, self.sent, self.recently) = (pid, program, sent, recently)
            (self.taken, self.sinceEmpty, self.hasEnded) = (taken, sinceEmpty, hasEnded)
            (self.requests, sharedMemory) = (requests, usesSharedMemory)
            (descriptors, memoryBytes) = (withDescriptors, memory)
        }

        private enum CodingKeys: String, CodingKey {
            case pid, program, sent, recently, taken, sinceEmpty, hasEnded = "ended", requests, sharedMemory
            case descriptors, memoryBytes = "memory"
        }
    }

    /// The requests in progress: those of a message port that were taken, and whose reply has not left.
    public struct Requests: Sendable, Hashable, Codable {
        /// The number of requests in progress, without those that may last.
        public let count: Int
        /// The number of requests in progress that may last, such as streams.
        public let lasting: Int
        /// The sixteen oldest requests in progress, then the sixteen oldest of those that may last or have their
        /// replies made.
        public let oldest: [Request]
    }

    /// A request that was taken, and has no reply yet.
    public struct Request: Sendable, Hashable, Codable {
        /// The message's id.
        public let id: UInt32
        /// The name of the request's type; nil for a request that is not typed.
        public let name: String?
        /// The process id of the asker; 0 when the owner does not know it.
        public let pid: Int32
        /// The name of the asker's program; nil when the owner does not know it.
        public let program: String?
        /// The place that the request came from by another transport, such as “another machine by nats://10.0.0.5:4222”; nil
        /// for a process of this machine.
        public internal(set) var origin: String?
        /// The time since the request was taken.
        public let age: Duration
        /// Whether the request may last as long as its asker likes, as a stream does: ``RequestKind/mayLast``.
        public let mayLast: Bool
        /// Whether the reply was made, and waits for room at the asker's port.
        public let isReplying: Bool
        /// Whether the asker has given up, or has ended.
        public let isCancelled: Bool

        private enum CodingKeys: String, CodingKey {
            case id, name = "type", pid, program, origin, age = "milliseconds", mayLast
            case isReplying = "replying", isCancelled = "cancelled"
        }
    }

    /// A message in a handler that has not returned. A loop, a queue or a thread tells the first message that it has in
    /// hand. Tasks in `serve` tell the messages that want no reply, because the others are ``PortInfo/requests``.
    public struct Handled: Sendable, Hashable, Codable {
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
        /// Whether the message was taken before the owner first observed the port, and so may be older.
        public let isOlder: Bool

        private enum CodingKeys: String, CodingKey {
            case id, name = "type", isRequest = "request", pid, program, age = "milliseconds", isOlder = "older"
        }
    }

    /// A port of another service that the owner waits for.
    public struct Awaited: Sendable, Hashable, Codable {
        /// The port's number and its process, as in ``PortID/description``.
        public let port: String
        /// The port as the owner knows it, as in ``PortIdentity/description``.
        public let title: String
        /// The requests to the port that have no reply yet.
        public let replies: Int
        /// The threads and tasks that wait for room at the port.
        public let senders: Int
    }
}
