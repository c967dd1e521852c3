import CBench
import Glibc

/// The floor under processes: one SEQPACKET socket, an epoll set, and nothing else.
final class PacketPeer: Contender {
    // Goes first: a child that saw the socket end would call that an error.
    let child: Child?
    private let socket: PacketSocket

    private init(_ socket: PacketSocket, child: Child) {
        self.socket = socket
        self.child = child
    }

    static let role = "packets"

    static func inChild(_ directory: String, _ frame: RawFrame) throws -> PacketPeer {
        let listener = cb_packet_listen("\(directory)/packets")
        guard listener >= 0 else { throw BenchError.system("listen", errno: errno) }
        defer { close(listener) }
        let child = try Child("\(role) \(frame.overhead) \(directory)")
        return PacketPeer(try PacketSocket(cb_packet_accept(listener), frame), child: child)
    }

    /// The child's side; does not return.
    static func serve(_ directory: String, _ frame: RawFrame) throws {
        let socket = try PacketSocket(cb_packet_connect("\(directory)/packets"), frame)
        try socket.echo(to: socket)
    }

    var payloads: ClosedRange<Int> { 0...socket.payloadLimit }

    func bind(_ placement: Placement) throws {
        placement.bindNear()
        try socket.send(Request.bind(placement))
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws {
        try socket.send(Request.expect(messages))
        try payload.withUnsafeBytes { payload in
            for _ in 0..<messages { try socket.send(Request.count, payload) }
        }
        try socket.waitForAnswer()
    }

    /// The kernel takes one packet at a time from any thread.
    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws {
        let share = messages / threads.count
        try socket.send(Request.expect(share * threads.count))
        try threads.run { [socket] _ in
            try payload.withUnsafeBytes { payload in
                for _ in 0..<share { try socket.send(Request.count, payload) }
            }
        }
        try socket.waitForAnswer()
    }

    func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
        var (unasked, underWay) = (questions, 0)
        try payload.withUnsafeBytes { payload in
            // Both ends would wait for ever if this one waited for room while answers wait for it.
            func ask() throws {
                while unasked > 0, underWay < inFlight, try socket.sendIfRoom(Request.answer, payload) {
                    unasked -= 1
                    underWay += 1
                }
            }
            clock?.start()
            try ask()
            while underWay > 0 {
                try socket.receive(within: answerSeconds) { _, _ in
                    clock?.tick()
                    underWay -= 1
                    try ask()
                }
            }
        }
    }
}

/// A SEQPACKET socket whose packets are like raw libzmq's frames.
final class PacketSocket: FrameSocket, @unchecked Sendable {
    // Sound: only `send` is called by several threads at once, and it changes nothing.
    private let socket: Int32
    private let set: Int32
    private let frame: RawFrame
    private let buffer: UnsafeMutableRawPointer
    private let limit: Int

    init(_ socket: Int32, _ frame: RawFrame) throws {
        self.socket = socket
        self.frame = frame
        set = cb_watch(socket, false)
        guard socket >= 0, set >= 0 else { throw BenchError.system("socket", errno: errno) }
        limit = cb_packet_limit(socket)
        buffer = .allocate(byteCount: limit, alignment: 16)
    }

    deinit {
        close(socket)
        close(set)
        buffer.deallocate()
    }

    var payloadLimit: Int { limit - frame.overhead }

    func send(_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws {
        guard send(number, payload, waits: true) else { throw BenchError.system("sendmsg", errno: errno) }
    }

    func sendIfRoom(_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws -> Bool {
        if send(number, payload, waits: false) { return true }
        guard errno == EAGAIN else { throw BenchError.system("sendmsg", errno: errno) }
        return false
    }

    private func send(_ number: UInt32, _ payload: UnsafeRawBufferPointer, waits: Bool) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: frame.overhead, alignment: 4) { head in
            head.initializeMemory(as: UInt8.self, repeating: 0)
            head.storeBytes(of: number, toByteOffset: RawFrame.numberOffset, as: UInt32.self)
            return cb_packet_send(socket, head.baseAddress, head.count, payload.baseAddress, payload.count, waits) == 0
        }
    }

    /// Sleeps until there are packets, and takes all there are.
    func receive(
        within seconds: Int32, _ body: (_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard cb_wait(set, seconds) == 0 else { throw BenchError.system("epoll_wait", errno: errno) }
        while true {
            let size = cb_packet_receive(socket, buffer, limit)
            guard size >= frame.overhead else {
                if size < 0, errno == EAGAIN { return }
                throw BenchError.system("recv", errno: errno)
            }
            try body(
                buffer.load(fromByteOffset: RawFrame.numberOffset, as: UInt32.self),
                UnsafeRawBufferPointer(start: buffer + frame.overhead, count: size - frame.overhead))
        }
    }
}
