import CBench
import Glibc

/// A frame as the raw side fills it: as long as a port's with the same payload, with the number in the same place.
struct RawFrame {
    static let numberOffset = 4

    /// How many bytes a port's frame has besides the payload.
    let overhead: Int
}

/// A ZeroMQ socket and nothing else: every call is libzmq's own.
final class RawSocket: FrameSocket, @unchecked Sendable {
    // Sound: each is used by one thread at a time; those that are shared have a lock around them.
    private let handle: UnsafeMutableRawPointer
    private let frame: RawFrame
    /// Tells in edges that there is something to receive.
    private(set) var descriptor: Int32 = -1
    private var set: Int32 = -1

    static let context = RawContext()

    /// One that receives.
    init(bound address: String, limit: Int32, _ frame: RawFrame) throws {
        guard let handle = zmq_socket(Self.context.handle, ZMQ_PULL) else { throw Self.error("zmq_socket") }
        self.handle = handle
        self.frame = frame
        try Self.set(handle, ZMQ_RCVHWM, limit)
        guard zmq_bind(handle, address) == 0 else { throw Self.error("zmq_bind") }
        var size = MemoryLayout<Int32>.size
        guard zmq_getsockopt(handle, ZMQ_FD, &descriptor, &size) == 0 else { throw Self.error("zmq_getsockopt") }
        set = cb_watch(descriptor, false)
        guard set >= 0 else { throw BenchError.system("epoll_ctl", errno: errno) }
    }

    /// One that sends.
    init(connected address: String, limit: Int32, _ frame: RawFrame) throws {
        guard let handle = zmq_socket(Self.context.handle, ZMQ_PUSH) else { throw Self.error("zmq_socket") }
        self.handle = handle
        self.frame = frame
        try Self.set(handle, ZMQ_SNDHWM, limit)
        guard zmq_connect(handle, address) == 0 else { throw Self.error("zmq_connect") }
    }

    deinit {
        if set >= 0 { close(set) }
        zmq_close(handle)
    }

    private static func set(_ handle: UnsafeMutableRawPointer, _ option: Int32, _ value: Int32) throws {
        var value = value
        guard zmq_setsockopt(handle, option, &value, MemoryLayout<Int32>.size) == 0 else {
            throw error("zmq_setsockopt")
        }
    }

    private static func error(_ call: String) -> BenchError { .system(call, errno: zmq_errno()) }

    /// A message of this number and payload, ready to be sent.
    func makeMessage(_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws -> zmq_msg_t {
        var message = zmq_msg_t()
        let size = frame.overhead + payload.count
        guard zmq_msg_init_size(&message, size) == 0, let data = zmq_msg_data(&message) else {
            throw Self.error("zmq_msg_init_size")
        }
        memset(data, 0, frame.overhead)
        data.storeBytes(of: number, toByteOffset: RawFrame.numberOffset, as: UInt32.self)
        if let bytes = payload.baseAddress { memcpy(data + frame.overhead, bytes, payload.count) }
        return message
    }

    /// Sends it; blocks while the queue is full.
    func send(_ message: inout zmq_msg_t) throws {
        while zmq_msg_send(&message, handle, 0) < 0 {
            guard zmq_errno() == EINTR else { throw Self.error("zmq_msg_send") }
        }
    }

    func send(_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws {
        var message = try makeMessage(number, payload)
        try send(&message)
    }

    /// Sends a message of these bytes without copying them.
    func send(_ bytes: SharedBytes) throws {
        var message = zmq_msg_t()
        let owner = Unmanaged.passRetained(bytes)
        let made = zmq_msg_init_data(
            &message, bytes.start, bytes.count,
            { _, owner in
                if let owner { Unmanaged<SharedBytes>.fromOpaque(owner).release() }
            }, owner.toOpaque())
        guard made == 0 else {
            owner.release()
            throw Self.error("zmq_msg_init_data")
        }
        try send(&message)
    }

    /// Sleeps until the socket has something to say, then takes all there is.
    func receive(
        within seconds: Int32, _ body: (_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard cb_wait(set, seconds) == 0 else { throw BenchError.system("epoll_wait", errno: errno) }
        try drain(body)
    }

    /// Takes all there is.
    func drain(_ body: (_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws -> Void) throws {
        var message = zmq_msg_t()
        zmq_msg_init(&message)
        defer { zmq_msg_close(&message) }
        while true {
            guard zmq_msg_recv(&message, handle, ZMQ_DONTWAIT) >= 0 else {
                switch zmq_errno() {
                case EAGAIN: return
                case EINTR: continue
                default: throw Self.error("zmq_msg_recv")
                }
            }
            let bytes = UnsafeRawBufferPointer(start: zmq_msg_data(&message), count: zmq_msg_size(&message))
            try body(
                bytes.loadUnaligned(fromByteOffset: RawFrame.numberOffset, as: UInt32.self),
                UnsafeRawBufferPointer(rebasing: bytes[frame.overhead...]))
        }
    }
}

/// The raw side's own context: one I/O thread, as the library's has.
final class RawContext: @unchecked Sendable {
    // Sound: libzmq's contexts are thread-safe. It lives as long as the process.
    let handle = zmq_ctx_new()

    init() { zmq_ctx_set(handle, ZMQ_MAX_SOCKETS, 20_000) }
}

/// Bytes that many messages share: an array, and the same for libzmq.
final class SharedBytes: @unchecked Sendable {
    // Sound: nobody writes them after the init.
    let array: [UInt8]
    let start: UnsafeMutableRawPointer
    var count: Int { array.count }

    init(_ array: [UInt8]) {
        self.array = array
        start = .allocate(byteCount: array.count, alignment: 16)
        array.withUnsafeBytes { bytes in
            if let base = bytes.baseAddress { start.copyMemory(from: base, byteCount: bytes.count) }
        }
        // Where a frame has its number.
        start.storeBytes(of: Request.count, toByteOffset: RawFrame.numberOffset, as: UInt32.self)
    }

    deinit { start.deallocate() }
}
