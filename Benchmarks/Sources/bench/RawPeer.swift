import RunLoops

/// libzmq by itself: a PUSH and a PULL socket each way, and an epoll set that holds the receiver's `ZMQ_FD`.
final class RawPeer: Contender, Sendable {
    private let outbox: RawSocket
    private let inbox: RawSocket
    /// What several threads need around a socket.
    private let lock = PlainLock()

    init(outbox: RawSocket, inbox: RawSocket) {
        self.outbox = outbox
        self.inbox = inbox
    }

    /// To another thread of this process.
    static func inThread(_ thread: RunLoopThread, _ frame: RawFrame) throws -> RawPeer {
        // As a port's sockets have it: inside one process the two marks are added up.
        let inbox = try RawSocket(bound: "inproc://asker", limit: queueLimit, frame)
        let echoInbox = try RawSocket(bound: "inproc://echo", limit: queueLimit, frame)
        let outbox = try RawSocket(connected: "inproc://echo", limit: 1, frame)
        let echoOutbox = try RawSocket(connected: "inproc://asker", limit: 1, frame)
        thread.loop.perform { echo(from: echoInbox, to: echoOutbox) }
        return RawPeer(outbox: outbox, inbox: inbox)
    }

    /// To a child, which says when it is ready.
    static func inChild(_ directory: String, _ frame: RawFrame) throws -> RawPeer {
        let inbox = try RawSocket(bound: "ipc://\(directory)/asker", limit: queueLimit, frame)
        let outbox = try RawSocket(connected: "ipc://\(directory)/echo", limit: queueLimit, frame)
        return RawPeer(outbox: outbox, inbox: inbox)
    }

    /// The child's side; does not return.
    static func serve(_ directory: String, _ frame: RawFrame) throws {
        let inbox = try RawSocket(bound: "ipc://\(directory)/echo", limit: queueLimit, frame)
        let outbox = try RawSocket(connected: "ipc://\(directory)/asker", limit: queueLimit, frame)
        echo(from: inbox, to: outbox)
    }

    /// Counts and answers, for ever.
    private static func echo(from inbox: RawSocket, to outbox: RawSocket) {
        var count: UInt32 = 0
        do {
            while true {
                try inbox.receive { number, payload in
                    if number == Request.count {
                        count += 1
                    } else if let placement = Request.placement(number) {
                        placement.bindFar()
                    } else {
                        try outbox.send(count, payload)
                        count = 0
                    }
                }
            }
        } catch {
            fail(error)
        }
    }

    func bind(_ placement: Placement) throws {
        placement.bindNear()
        try outbox.send(Request.bind(placement), UnsafeRawBufferPointer(start: nil, count: 0))
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws -> Double {
        try seconds {
            try payload.withUnsafeBytes { payload in
                for _ in 0..<messages { try outbox.send(Request.count, payload) }
            }
            try ask(payload, expecting: messages)
        }
    }

    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws -> Double {
        let share = messages / threads.count
        return try seconds {
            try threads.run { [self] in
                try payload.withUnsafeBytes { payload in
                    for _ in 0..<share {
                        var message = try outbox.makeMessage(Request.count, payload)
                        try lock.withLock { try outbox.send(&message) }
                    }
                }
            }
            try ask(payload, expecting: share * threads.count)
        }
    }

    func roundTrips(_ messages: Int, payload: [UInt8]) throws -> Double {
        try seconds { for _ in 0..<messages { try ask(payload, expecting: 0) } }
    }

    private func ask(_ payload: [UInt8], expecting count: Int) throws {
        try payload.withUnsafeBytes { try outbox.send(Request.answer, $0) }
        var counted: Int?
        while counted == nil { try inbox.receive { number, _ in counted = Int(number) } }
        guard counted == count else { throw BenchError.lost(sent: count, counted: counted ?? 0) }
    }
}
