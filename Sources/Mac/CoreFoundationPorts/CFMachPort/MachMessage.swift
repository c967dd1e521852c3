import CCoreFoundationPorts
import Ports

/// A message as Mach's functions have it: a header, the bytes, and an empty trailer at the next multiple of four.
struct MachMessage {
    /// The header's size and the bytes'.
    let size: Int
    private let isComplex: Bool
    var bytes: [UInt8]

    private static let headerSize = MemoryLayout<mach_msg_header_t>.size

    /// The bytes of the components, one after the other. The receiver has a reference to the port for the answer.
    init(_ message: MachPort.Message, to number: UInt32) {
        var parts: [[UInt8]] = []
        for case .bytes(let bytes) in message.components { parts.append(bytes) }
        var content = parts.first ?? []
        isComplex = MachMemory.place(Array(parts.dropFirst()), in: &content)
        if !isComplex { content = Array(parts.joined()) }
        size = Self.headerSize + content.count
        let reply = message.replyPort.map(PortNumbers.shared.retain) ?? 0
        // The kind of the right in each of the two ports.
        let bits =
            UInt32(MACH_MSG_TYPE_MOVE_SEND) << 8 | (reply == 0 ? 0 : UInt32(MACH_MSG_TYPE_MOVE_SEND))
            | (isComplex ? MACH_MSGH_BITS_COMPLEX : 0)
        let header = mach_msg_header_t(
            msgh_bits: bits, msgh_size: UInt32(truncatingIfNeeded: size),
            msgh_remote_port: reply, msgh_local_port: number, msgh_voucher_port: 0,
            msgh_id: Int32(bitPattern: message.id))
        bytes = withUnsafeBytes(of: header) { Array($0) } + content
        bytes += [UInt8](repeating: 0, count: (4 - size % 4) % 4)
        let trailer = mach_msg_trailer_t(
            msgh_trailer_type: 0, msgh_trailer_size: UInt32(MemoryLayout<mach_msg_trailer_t>.size))
        bytes += withUnsafeBytes(of: trailer) { Array($0) }
    }
}

/// Deallocates the memory of a received message, and the reference to the port for the answer.
func destroy(_ header: UnsafeMutablePointer<mach_msg_header_t>) {
    if header.pointee.msgh_bits & MACH_MSGH_BITS_COMPLEX != 0 {
        let count = max(Int(header.pointee.msgh_size) - MemoryLayout<mach_msg_header_t>.size, 0)
        let bytes = UnsafeRawBufferPointer(start: header + 1, count: count)
        MachMemory.deallocate(MachMemory.descriptors(bytes) ?? [])
    }
    if header.pointee.msgh_remote_port != 0 { PortNumbers.shared.change(header.pointee.msgh_remote_port, by: -1) }
}

/// Sends what a program has put behind a header.
func send(
    _ header: mach_msg_header_t, _ bytes: UnsafeRawBufferPointer, before deadline: ContinuousClock.Instant?
) -> mach_msg_return_t {
    var memory: [mach_msg_ool_descriptor_t] = []
    if header.msgh_bits & MACH_MSGH_BITS_COMPLEX != 0 {
        guard let descriptors = MachMemory.descriptors(bytes) else { return MACH_SEND_INVALID_TYPE }
        memory = descriptors
    }
    guard let pieces = MachMemory.contents(memory) else { return MACH_SEND_INVALID_DATA }
    guard let right = PortNumbers.shared.right(header.msgh_remote_port) else { return MACH_SEND_INVALID_DEST }
    var replyPort: MachPort.SendRight?
    if header.msgh_local_port != 0 {
        replyPort = PortNumbers.shared.right(header.msgh_local_port)
        guard replyPort != nil else { return MACH_SEND_INVALID_REPLY }
    }
    do throws(PortError) {
        let id = UInt32(bitPattern: header.msgh_id)
        if pieces.isEmpty {
            try right.send(id: id, bytes: bytes.bytes, replyPort: replyPort, before: deadline)
        } else {
            let components = [.bytes(Array(bytes))] + pieces.map { MachPort.Message.Component.bytes($0) }
            try right.send(MachPort.Message(id: id, components, replyPort: replyPort), before: deadline)
        }
    } catch {
        let result = error.machResult
        // The other results say it all.
        if result == MACH_SEND_NO_BUFFER { log.warning("mach_msg failed: \(error)") }
        return result
    }
    MachMemory.deallocate(memory.filter { $0.deallocate != 0 })
    // The message has taken the references that it moves.
    for (port, type) in [(header.msgh_remote_port, header.msgh_bits), (header.msgh_local_port, header.msgh_bits >> 8)]
    where [MACH_MSG_TYPE_MOVE_SEND, MACH_MSG_TYPE_MOVE_SEND_ONCE].contains(Int32(type & 0x1f)) {
        PortNumbers.shared.change(port, by: -1)
    }
    return MACH_MSG_SUCCESS
}

/// Takes the next message of the port of a number.
func receive(
    _ number: UInt32, into buffer: UnsafeMutableRawBufferPointer, before deadline: ContinuousClock.Instant?
) -> mach_msg_return_t {
    guard let receiver = PortNumbers.shared.receiver(number) else { return MACH_RCV_INVALID_NAME }
    do throws(PortError) {
        var received = MachMessage(try receiver.receive(before: deadline), to: number)
        // The trailer, which few programs read, may find no room.
        guard received.size <= buffer.count else {
            received.bytes.withUnsafeMutableBytes { bytes in
                if let header = bytes.baseAddress { destroy(header.assumingMemoryBound(to: mach_msg_header_t.self)) }
            }
            return MACH_RCV_TOO_LARGE
        }
        buffer.copyBytes(from: received.bytes.prefix(buffer.count))
        return MACH_MSG_SUCCESS
    } catch {
        if case .receiveTimedOut = error { return MACH_RCV_TIMED_OUT }
        return MACH_RCV_PORT_DIED
    }
}

extension PortError {
    fileprivate var machResult: mach_msg_return_t {
        switch self {
        case .sendTimedOut, .ownQueueFull: MACH_SEND_TIMED_OUT
        case .messageTooLarge: MACH_SEND_TOO_LARGE
        case .isInvalid, .becameInvalid: MACH_SEND_INVALID_DEST
        default: MACH_SEND_NO_BUFFER
        }
    }
}
