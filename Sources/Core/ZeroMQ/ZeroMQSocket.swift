import CZeroMQ
import Glibc

/// A ZeroMQ socket, for one thread at a time. The corresponding C function is `zmq_socket`.
public struct ZeroMQSocket: ~Copyable, @unchecked Sendable {
    // Sound: the value has one owner, and libzmq allows a socket to be handed from thread to thread with a barrier.
    private let handle: UnsafeMutableRawPointer
    // A socket must not outlive its context.
    private let context: ZeroMQContext

    /// The kinds of sockets.
    public enum Kind: Sendable {
        /// Sends to the connected pull sockets.
        case push
        /// Receives from the connected push sockets.
        case pull

        var code: Int32 { self == .push ? ZMQ_PUSH : ZMQ_PULL }
    }

    /// The options that this library uses. An option of connections affects only later connections.
    public enum Option: Sendable {
        /// The messages queued for sending on one connection.
        case sendHighWaterMark(Int32)
        /// The messages queued for receiving on one connection.
        case receiveHighWaterMark(Int32)
        /// The milliseconds to flush after closing; -1 without end.
        case linger(Int32)
        /// The milliseconds before a second connection attempt; -1 never.
        case reconnectInterval(Int32)
        /// The milliseconds for the handshake of a connection; 0 without end.
        case handshakeInterval(Int32)
        /// Whether to queue only on established connections.
        case immediate(Bool)
        /// The largest frame in bytes; -1 for any. A connection that brings a larger frame is closed.
        case maxMessageSize(Int64)
        /// Whether a connection keeps only its last frame. A frame that is sent while the peer reads may be lost, but
        /// the peer's descriptor reports it.
        case conflate(Bool)
        /// A listening descriptor for the next bind.
        case useDescriptor(Int32)
        /// The only user whose processes may connect over ipc.
        case ipcPeerUser(uid_t)
        /// The ZAP domain. With a domain and without a ZAP handler, libzmq refuses peers that speak ZMTP 1 or 2, whose
        /// messages would come without `Peer-Address`, and accepts all others.
        case authenticationDomain(String)
    }

    /// The operations that do not wait.
    public struct Events: OptionSet, Sendable {
        /// libzmq's bits.
        public let rawValue: Int32
        /// The events of these bits.
        public init(rawValue: Int32) { self.rawValue = rawValue }
        /// A frame can be received.
        public static let receivable = Events(rawValue: ZMQ_POLLIN)
        /// A frame can be sent.
        public static let sendable = Events(rawValue: ZMQ_POLLOUT)
    }

    /// Makes a socket. Waits a moment for libzmq when many sockets were closed shortly before.
    /// - Throws: ``ZeroMQError``; `EMFILE` when the context holds as many sockets as it can, or no descriptor is left.
    public init(_ kind: Kind, in context: ZeroMQContext) throws(ZeroMQError) {
        context.closed.awaitEnd(ifMoreThan: ClosedSockets.most, in: context)
        do throws(ZeroMQError) {
            handle = try context.makeSocket(kind)
        } catch {
            guard error.code == EMFILE, context.awaitClosedSockets() else { throw error }
            handle = try context.makeSocket(kind)
        }
        self.context = context
    }

    /// Makes a socket at once.
    init(atOnce kind: Kind, in context: ZeroMQContext) throws(ZeroMQError) {
        handle = try context.makeSocket(kind)
        self.context = context
    }

    deinit {
        // In a forked child, closing would take locks that another thread of the parent may have held.
        guard context.isOwn else { return }
        zmq_close(handle)
        context.closed.note()
    }

    /// Sets an option. The corresponding C function is `zmq_setsockopt`.
    public func set(_ option: Option) throws(ZeroMQError) {
        let result =
            switch option {
            case .sendHighWaterMark(let count): set(ZMQ_SNDHWM, count)
            case .receiveHighWaterMark(let count): set(ZMQ_RCVHWM, count)
            case .linger(let milliseconds): set(ZMQ_LINGER, milliseconds)
            case .reconnectInterval(let milliseconds): set(ZMQ_RECONNECT_IVL, milliseconds)
            case .handshakeInterval(let milliseconds): set(ZMQ_HANDSHAKE_IVL, milliseconds)
            case .immediate(let isOn): set(ZMQ_IMMEDIATE, isOn ? 1 : 0 as Int32)
            case .maxMessageSize(let bytes): set(ZMQ_MAXMSGSIZE, bytes)
            case .conflate(let isOn): set(ZMQ_CONFLATE, isOn ? 1 : 0 as Int32)
            case .useDescriptor(let descriptor): set(ZMQ_USE_FD, descriptor)
            case .ipcPeerUser(let user): set(ZMQ_IPC_FILTER_UID, user)
            case .authenticationDomain(let name): zmq_setsockopt(handle, ZMQ_ZAP_DOMAIN, name, name.utf8.count)
            }
        guard result == 0 else { throw .last("zmq_setsockopt") }
    }

    private func set<Value: BitwiseCopyable>(_ option: Int32, _ value: Value) -> Int32 {
        withUnsafeBytes(of: value) { zmq_setsockopt(handle, option, $0.baseAddress, $0.count) }
    }

    /// Binds the socket to an address. The corresponding C function is `zmq_bind`.
    public func bind(_ address: String) throws(ZeroMQError) {
        try attempt("zmq_bind") { zmq_bind(handle, address) }
    }

    /// Connects the socket to an address, whether or not anybody listens there. The corresponding C function is
    /// `zmq_connect`.
    public func connect(_ address: String) throws(ZeroMQError) {
        try attempt("zmq_connect") { zmq_connect(handle, address) }
    }

    /// Gives up an address inside the context. Connections stay. The corresponding C function is `zmq_unbind`.
    ///
    /// Unbind a socket before its end, because libzmq searches the addresses of all other sockets otherwise.
    public func unbind(_ address: String) throws(ZeroMQError) {
        try attempt("zmq_unbind") { zmq_unbind(handle, address) }
    }

    /// Ends the connection to an address inside the context, when both ends have read their ``events()``. The
    /// corresponding C function is `zmq_disconnect`.
    public func disconnect(_ address: String) throws(ZeroMQError) {
        try attempt("zmq_disconnect") { zmq_disconnect(handle, address) }
    }

    /// The edge-triggered descriptor, which becomes readable when the socket has commands to process, not messages. So
    /// read ``events()`` each time the descriptor fires. The corresponding C option is `ZMQ_FD`.
    public var descriptor: Int32 {
        get throws(ZeroMQError) { try get(ZMQ_FD) }
    }

    /// The operations that do not wait now. Processes the socket's commands, which silences the descriptor. The
    /// corresponding C option is `ZMQ_EVENTS`.
    public func events() throws(ZeroMQError) -> Events { Events(rawValue: try get(ZMQ_EVENTS)) }

    private func get(_ option: Int32) throws(ZeroMQError) -> Int32 {
        var value: Int32 = 0
        var size = MemoryLayout<Int32>.size
        try attempt("zmq_getsockopt") { zmq_getsockopt(handle, option, &value, &size) }
        return value
    }

    /// Sends a frame without waiting, and leaves the frame empty. The corresponding C function is `zmq_msg_send` with
    /// `ZMQ_DONTWAIT`.
    /// - Returns: False without room. Then the frame stays unchanged.
    public func send(_ frame: inout ZeroMQFrame) throws(ZeroMQError) -> Bool {
        try attempt("zmq_msg_send") { zmq_msg_send(&frame.message, handle, ZMQ_DONTWAIT) }
    }

    /// Receives into a frame without waiting, and replaces its bytes. The corresponding C function is `zmq_msg_recv`
    /// with `ZMQ_DONTWAIT`.
    /// - Returns: False without a message.
    public func receive(_ frame: inout ZeroMQFrame) throws(ZeroMQError) -> Bool {
        try attempt("zmq_msg_recv") { zmq_msg_recv(&frame.message, handle, ZMQ_DONTWAIT) }
    }

    /// Makes a call, and retries it when it was interrupted. libzmq processes commands first, so an interruption there
    /// changes nothing.
    /// - Returns: False for `EAGAIN`, which only sends and receives report.
    @inline(__always) @discardableResult
    private func attempt(_ name: String, _ call: () -> Int32) throws(ZeroMQError) -> Bool {
        while call() < 0 {
            switch zmq_errno() {
            case EAGAIN: return false
            case EINTR: continue
            default: throw .last(name)
            }
        }
        return true
    }
}
