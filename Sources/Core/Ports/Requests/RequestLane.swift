/// Requests that a server handles apart from the others, a limited number at a time, so that a quick request need not
/// wait for slow ones.
///
///     let imports = RequestLane("imports", atMost: 2)
///     let status = RequestKind(name: "Status", lane: RequestLane(atMost: 10))
///
/// `TypedPorts` puts a type of request into a lane. ``LocalMessagePort/setKind(_:ofRequests:)`` puts an id of plain
/// requests into one. Types whose lanes are equal share the lane. A lane without a name is never shared.
public struct RequestLane: Sendable, Hashable {
    /// The name for people; nil for a lane of one type alone.
    public let name: String?
    /// The requests that are handled at a time.
    public let limit: Int
    /// The fate of further requests.
    public let whenFull: WhenFull

    /// Makes a lane. A limit below 1 stops the process.
    /// - Parameters:
    ///   - name: The name for people; nil for a lane of one type alone.
    ///   - limit: The requests that are handled at a time, 1 or more.
    ///   - whenFull: The fate of further requests.
    public init(_ name: String? = nil, atMost limit: Int, whenFull: WhenFull = .wait) {
        precondition(
            limit > 0, "the lane \(name?.quoted ?? "without a name") handles at most \(limit) requests: allow 1 or more"
        )
        self.init(name: name, limit: limit, whenFull: whenFull)
    }

    private init(name: String?, limit: Int, whenFull: WhenFull) {
        (self.name, self.limit, self.whenFull) = (name, limit, whenFull)
    }

    /// The lane of requests that may last: a server may have none.
    static func lasting(atMost limit: Int) -> RequestLane {
        RequestLane(name: nil, limit: limit, whenFull: .refuse)
    }

    /// The fate of requests that find all handlers of their lane at work.
    public struct WhenFull: Sendable, Hashable {
        /// The most requests that the server takes from the port before the lane has a handler for them.
        let mostWaiting: Int
        let refuses: Bool

        /// A hundred requests wait in the server; then all further requests, also of other lanes, wait at the port.
        public static let wait = wait(upTo: 100)

        /// This number of requests, 0 or more, waits in the server; then all further requests, also of other lanes, wait
        /// at the port (back-pressure).
        public static func wait(upTo count: Int) -> WhenFull { WhenFull(mostWaiting: max(0, count), refuses: false) }

        /// Further requests fail at once: the asker gets ``PortError/serverBusy(port:limit:)``.
        public static let refuse = refuse(beyond: 0)

        /// This number of requests, 0 or more, waits in the server; further requests fail at once, and the asker gets
        /// ``PortError/serverBusy(port:limit:)``.
        public static func refuse(beyond count: Int) -> WhenFull {
            WhenFull(mostWaiting: max(0, count), refuses: true)
        }
    }

    /// The requests of a lane. See ``PortCounters``.
    public struct Counters: Sendable, Hashable {
        /// The requests in handlers.
        public var running = 0
        /// The requests that were taken, and wait for a handler.
        public var waiting = 0
        /// The requests that were refused since the port was made, because the lane was full.
        public var refused = 0

        static func + (left: Counters, right: Counters) -> Counters {
            Counters(
                running: left.running + right.running, waiting: left.waiting + right.waiting,
                refused: left.refused + right.refused)
        }
    }
}
