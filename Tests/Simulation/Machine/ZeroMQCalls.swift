import Glibc
import SimulatedCalls

// The functions of libzmq, as the library uses them.

nonisolated(unsafe) private var code: Int32 = 0

private func result(_ error: Int32) -> Int32 {
    code = error
    errno = error
    return error == 0 ? 0 : -1
}

private func context(_ handle: UnsafeMutableRawPointer) -> ZeroMQ {
    Unmanaged<ZeroMQ>.fromOpaque(handle).takeUnretainedValue()
}

private func socket(_ handle: UnsafeMutableRawPointer) -> ZeroMQ.Socket {
    Unmanaged<ZeroMQ.Socket>.fromOpaque(handle).takeUnretainedValue()
}

@_cdecl("zmq_errno") func zmqErrno() -> Int32 { code }

@_cdecl("zmq_ctx_new") func zmqContext() -> UnsafeMutableRawPointer? {
    Unmanaged.passRetained(ZeroMQ(machine.current.process)).toOpaque()
}

@_cdecl("zmq_ctx_set") func zmqSet(_ handle: UnsafeMutableRawPointer, _ option: Int32, _ value: Int32) -> Int32 { 0 }
@_cdecl("zmq_ctx_get") func zmqGet(_ handle: UnsafeMutableRawPointer, _ option: Int32) -> Int32 { 65_535 }

@_cdecl("zmq_ctx_term") func zmqTerminate(_ handle: UnsafeMutableRawPointer) -> Int32 {
    context(handle).terminate()
    return 0
}

@_cdecl("zmq_socket") func zmqSocket(_ handle: UnsafeMutableRawPointer, _ kind: Int32) -> UnsafeMutableRawPointer? {
    guard let made = context(handle).makeSocket(kind == 7) else {
        _ = result(EMFILE)
        return nil
    }
    return Unmanaged.passRetained(made).toOpaque()
}

@_cdecl("zmq_close") func zmqClose(_ handle: UnsafeMutableRawPointer) -> Int32 {
    let socket = socket(handle)
    socket.context.close(socket)
    return 0
}

@_cdecl("zmq_setsockopt")
func zmqSetOption(_ handle: UnsafeMutableRawPointer, _ option: Int32, _ value: UnsafeRawPointer, _ size: UInt) -> Int32
{
    let socket = socket(handle)
    let number = size == 4 ? value.loadUnaligned(as: Int32.self) : 0
    switch option {
    case 23, 24: socket.limit = Int(number)
    case 54: socket.keepsOne = number != 0
    case 17: socket.linger = number
    case 89: socket.given = number
    default: break
    }
    return 0
}

@_cdecl("zmq_getsockopt")
func zmqOption(
    _ handle: UnsafeMutableRawPointer, _ option: Int32, _ value: UnsafeMutableRawPointer,
    _ size: UnsafeMutablePointer<UInt>
) -> Int32 {
    let socket = socket(handle)
    value.storeBytes(of: option == 14 ? socket.number : socket.events, as: Int32.self)
    return 0
}

@_cdecl("zmq_bind") func zmqBind(_ handle: UnsafeMutableRawPointer, _ address: UnsafePointer<CChar>) -> Int32 {
    result(socket(handle).bind(String(cString: address)))
}
@_cdecl("zmq_connect") func zmqConnect(_ handle: UnsafeMutableRawPointer, _ address: UnsafePointer<CChar>) -> Int32 {
    result(socket(handle).connect(String(cString: address)))
}
@_cdecl("zmq_unbind") func zmqUnbind(_ handle: UnsafeMutableRawPointer, _ address: UnsafePointer<CChar>) -> Int32 {
    socket(handle).unbind(String(cString: address))
    return 0
}
@_cdecl("zmq_disconnect") func zmqDisconnect(_ handle: UnsafeMutableRawPointer, _ address: UnsafePointer<CChar>)
    -> Int32
{
    socket(handle).disconnect()
    return 0
}

// MARK: Frames

/// The first bytes of a `zmq_msg_t`.
private struct Message {
    var bytes: UnsafeMutableRawPointer?
    var size: UInt
    /// A C string, or nil.
    var address: UnsafeMutablePointer<CChar>?
}

private func message(_ handle: UnsafeMutableRawPointer) -> UnsafeMutablePointer<Message> {
    handle.assumingMemoryBound(to: Message.self)
}

@_cdecl("zmq_msg_init") func zmqMessage(_ handle: UnsafeMutableRawPointer) -> Int32 {
    message(handle).pointee = Message(bytes: nil, size: 0, address: nil)
    return 0
}
@_cdecl("zmq_msg_init_size") func zmqMessage(_ handle: UnsafeMutableRawPointer, _ size: UInt) -> Int32 {
    message(handle).pointee = Message(bytes: malloc(Int(max(size, 1))), size: size, address: nil)
    return 0
}
@_cdecl("zmq_msg_close") func zmqCloseMessage(_ handle: UnsafeMutableRawPointer) -> Int32 {
    free(message(handle).pointee.bytes)
    free(message(handle).pointee.address)
    return zmqMessage(handle)
}
@_cdecl("zmq_msg_data") func zmqData(_ handle: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
    message(handle).pointee.bytes
}
@_cdecl("zmq_msg_size") func zmqSize(_ handle: UnsafeMutableRawPointer) -> UInt { message(handle).pointee.size }
@_cdecl("zmq_msg_more") func zmqMore(_ handle: UnsafeMutableRawPointer) -> Int32 { 0 }
@_cdecl("zmq_msg_gets")
func zmqProperty(_ handle: UnsafeMutableRawPointer, _ name: UnsafePointer<CChar>) -> UnsafePointer<CChar>? {
    message(handle).pointee.address.map { UnsafePointer($0) }
}

@_cdecl("zmq_msg_send")
func zmqSend(_ handle: UnsafeMutableRawPointer, _ to: UnsafeMutableRawPointer, _ flags: Int32) -> Int32 {
    let found = message(handle).pointee
    let bytes = Array(UnsafeRawBufferPointer(start: found.bytes, count: Int(found.size)))
    let error = socket(to).send(bytes)
    if error != 0 { return result(error) }
    _ = zmqCloseMessage(handle)
    return Int32(bytes.count)
}

@_cdecl("zmq_msg_recv")
func zmqReceive(_ handle: UnsafeMutableRawPointer, _ from: UnsafeMutableRawPointer, _ flags: Int32) -> Int32 {
    guard let frame = socket(from).receive() else { return result(EAGAIN) }
    _ = zmqCloseMessage(handle)
    _ = zmqMessage(handle, UInt(frame.bytes.count))
    frame.bytes.withUnsafeBytes {
        if let start = $0.baseAddress { message(handle).pointee.bytes?.copyMemory(from: start, byteCount: $0.count) }
    }
    if !frame.address.isEmpty { message(handle).pointee.address = strdup(frame.address) }
    return Int32(frame.bytes.count)
}
