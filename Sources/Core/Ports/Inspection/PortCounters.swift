/// The counters of a runtime's ports since the runtime was made. See ``PortRuntime/counters()``.
public struct PortCounters: Sendable, Hashable {
    /// The messages sent, to ports of this process, too. Requests, replies and the batches of streams are messages.
    public var sent = 0
    /// The messages taken from the ports' queues.
    public var received = 0
    /// The messages that were sent to the ports, also by other processes, and are not taken yet.
    public var waiting = 0
    /// The requests that the ports have taken, and that have no reply yet, streams too.
    public var requests = 0
    /// The requests that were refused: they came to a port that ended, or to one that answers none.
    public var refused = 0
    /// The replies that came after their requests had ended, as ``PortRuntime/lateReplyCount``.
    public var late = 0
    /// The messages that nobody got, and whose senders were not told: malformed frames, and messages other than
    /// requests that waited in a port when it ended.
    public var dropped = 0
    /// The processes that have a connection with this one.
    public var peers = 0
    /// The valid ports, those of the library for replies, too.
    public var ports = 0
    /// The shared memory by which other processes send to the ports.
    public var sharedMemory = SharedMemory()
    /// The ports with names, by name.
    public var named: [String: Port] = [:]
    /// The pools of worker processes, by name. Pools of one name count as one.
    public var pools: [String: Pool] = [:]
    /// The services of an activator in this process, by name.
    public var services: [String: Service] = [:]

    /// The counters of one port.
    public struct Port: Sendable, Hashable {
        /// The identity of the port. It tells ports apart that have had the same name one after the other.
        public var id: PortID
        /// The messages taken from the port's queue.
        public var received = 0
        /// The messages that were sent to the port and are not taken yet.
        public var waiting = 0
        /// The requests that the port has taken, and that have no reply yet, streams too.
        public var requests = 0
        /// The malformed frames that were dropped.
        public var dropped = 0
        /// The lanes of the port's requests, by name. The name is empty for requests without a lane of their own.
        public var lanes: [String: RequestLane.Counters] = [:]
    }

    /// The rings in shared memory that other processes write messages into. Messages of a quarter of a ring and more have
    /// memory of their own, which is not counted.
    public struct SharedMemory: Sendable, Hashable {
        /// The bytes that wait to be taken.
        public var used = 0
        /// The size of the rings in bytes.
        public var size = 0
    }

    /// The counters of the pools of one name.
    public struct Pool: Sendable, Hashable {
        /// The workers that have no request.
        public var idle = 0
        /// The workers that have a request.
        public var busy = 0
        /// The workers that wait for the end of another, whose place they take.
        public var spares = 0
        /// The workers that are starting, or will be started again.
        public var missing = 0
        /// The requests that wait for a worker.
        public var waiting = 0
        /// The requests that have waited for a worker, and wait no more.
        public var waited = 0
        /// The time for which those requests have waited, added up.
        public var waitTime = Duration.zero
        /// The workers that have ended while their pool ran, by the cause: `exited`, `failed` (with another status than 0),
        /// `signaled`, `hung`, `silent`, `memory_limit`, `lingering`, `request_limit`, `not_started`.
        public var ended: [String: Int] = [:]
    }

    /// The counters of one service of an activator.
    public struct Service: Sendable, Hashable {
        /// The service's state, as `portctl services` shows it: `waiting`, `starting`, `running`, `stopping`, `failed`,
        /// `elsewhere` or `unusable`.
        public var state: String
        /// How often the service was started.
        public var starts: Int

        package init(state: String, starts: Int) { (self.state, self.starts) = (state, starts) }
    }

    /// Makes counters of zero.
    public init() {}
}

extension PortCounters {
    mutating func add(_ port: Receiver, _ found: PortStatistics) {
        ports += 1
        waiting += found.waiting
        // Read first, so that no lane has more requests than the port.
        let lanes = port.ledger?.serving.laneCounters ?? [:]
        let requests = port.ledger?.count ?? 0
        self.requests += requests
        if let memory = port.intake.readRings({ $0.memoryInUse }) {
            sharedMemory.used += memory.used
            sharedMemory.size += memory.size
        }
        for name in port.exposure.serviceNames {
            named[name] = Port(
                id: port.publicID, received: found.received, waiting: found.waiting, requests: requests,
                dropped: port.intake.totals.malformed, lanes: lanes)
        }
    }
}
