import RunLoops

/// libzmq by itself: a PUSH and a PULL socket each way, and an epoll set that holds the receiver's `ZMQ_FD`.
final class RawPeer: HandingOver {
    private let outbox: RawSocket
    private let inbox: RawSocket
    /// A PUSH for each of several threads; none: they share one behind a mutex.
    private let outboxes: [RawSocket]
    private let lock = PlainLock()
    let child: Child?

    private init(outbox: RawSocket, inbox: RawSocket, outboxes: [RawSocket] = [], child: Child? = nil) {
        self.outbox = outbox
        self.inbox = inbox
        self.outboxes = outboxes
        self.child = child
    }

    /// To another thread of this process.
    static func inThread(_ name: String, _ frame: RawFrame, outboxes count: Int = 0) throws -> RawPeer {
        let addresses = (asker: "inproc://\(name) asker", echo: "inproc://\(name) echo")
        // As a port's sockets have it: inside one process the two marks are added up.
        let inbox = try RawSocket(bound: addresses.asker, limit: queueLimit, frame)
        let echoInbox = try RawSocket(bound: addresses.echo, limit: queueLimit, frame)
        let outboxes = try (0...count).map { _ in try RawSocket(connected: addresses.echo, limit: 1, frame) }
        let echoOutbox = try RawSocket(connected: addresses.asker, limit: 1, frame)
        try PlainThread.start {
            do { try echoInbox.echo(to: echoOutbox) } catch { fail(error) }
        }
        return RawPeer(outbox: outboxes[count], inbox: inbox, outboxes: Array(outboxes.prefix(count)))
    }

    static let role = "raw"

    /// To a child.
    static func inChild(_ directory: String, _ frame: RawFrame) throws -> RawPeer {
        let inbox = try RawSocket(bound: "ipc://\(directory)/asker", limit: queueLimit, frame)
        let outbox = try RawSocket(connected: "ipc://\(directory)/echo", limit: queueLimit, frame)
        return RawPeer(outbox: outbox, inbox: inbox, child: try Child("\(role) \(frame.overhead) \(directory)"))
    }

    /// The child's side; does not return.
    static func serve(_ directory: String, _ frame: RawFrame) throws {
        let inbox = try RawSocket(bound: "ipc://\(directory)/echo", limit: queueLimit, frame)
        let outbox = try RawSocket(connected: "ipc://\(directory)/asker", limit: queueLimit, frame)
        try inbox.echo(to: outbox)
    }

    func bind(_ placement: Placement) throws {
        placement.bindNear()
        try outbox.send(Request.bind(placement))
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws {
        try outbox.send(Request.expect(messages))
        try payload.withUnsafeBytes { payload in
            for _ in 0..<messages { try outbox.send(Request.count, payload) }
        }
        try inbox.waitForAnswer()
    }

    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws {
        let share = messages / threads.count
        try outbox.send(Request.expect(share * threads.count))
        try threads.run { [self] thread in
            try payload.withUnsafeBytes { payload in
                if outboxes.isEmpty {
                    for _ in 0..<share {
                        var message = try outbox.makeMessage(Request.count, payload)
                        try lock.withLock { try outbox.send(&message) }
                    }
                } else {
                    let outbox = outboxes[thread]
                    for _ in 0..<share { try outbox.send(Request.count, payload) }
                }
            }
        }
        try inbox.waitForAnswer()
    }

    func oneWay(_ messages: Int, handingOver bytes: SharedBytes) throws {
        try outbox.send(Request.expect(messages))
        for _ in 0..<messages { try outbox.send(bytes) }
        try inbox.waitForAnswer()
    }

    func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
        var left = Questions(questions, asked: inFlight)
        var isOver = false
        try payload.withUnsafeBytes { payload in
            clock?.start()
            for _ in 0..<inFlight { try outbox.send(Request.answer, payload) }
            while !isOver {
                try inbox.receive(within: answerSeconds) { _, payload in
                    clock?.tick()
                    switch left.answered() {
                    case .ask: try outbox.send(Request.answer, payload)
                    case .wait: break
                    case .finish: isOver = true
                    }
                }
            }
        }
    }
}
