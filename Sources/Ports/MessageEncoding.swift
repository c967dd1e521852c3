import ZeroMQ

/// Builds frames. The size is computed first, so a message costs one allocation, made by libzmq.
enum MessageEncoding {
    /// A frame of one component of bytes.
    static func frame(
        id: UInt32, bytes: RawSpan, replyPort: MachPort.SendRight? = nil, to port: SendChannel
    ) throws(PortError) -> Frame {
        let reply = try wireRight(replyPort, to: port)
        let header = WireHeader(id: id, count: 1, replySize: reply?.size ?? 0, origin: port.mark)
        var frame = try emptyFrame(size: header.componentsOffset + bytes.byteCount, to: port)
        frame.withUnsafeMutableBytes { target in
            header.write(to: target)
            target.setLittle(UInt32(bytes.byteCount), at: header.sizesOffset)
            write(reply, to: target, at: header.replyOffset)
            bytes.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: target[header.componentsOffset...]).copyMemory(from: $0)
            }
        }
        return frame
    }

    /// A frame of any components. If the frame leaves this runtime, the ports in it are exposed first.
    static func frame(
        _ message: MachPort.Message, kind: Wire.Kind = .message, request: UInt64 = 0, to port: SendChannel
    ) throws(PortError) -> Frame {
        let components = message.components
        let reply = try wireRight(message.replyPort, to: port)
        var rights: [WireRight] = []
        var size = 0
        for component in components {
            switch component {
            case .bytes(let bytes): size += bytes.count
            case .port(let right):
                let right = try right.channel.wireRight(leaving: !port.isLocal)
                rights.append(right)
                size += right.size
            }
        }
        let header = WireHeader(
            kind: kind, id: message.id, request: request, count: components.count, replySize: reply?.size ?? 0,
            origin: port.mark)
        var frame = try emptyFrame(size: header.componentsOffset + size, to: port)
        frame.withUnsafeMutableBytes { target in
            header.write(to: target)
            write(reply, to: target, at: header.replyOffset)
            var offset = header.componentsOffset
            var ports = rights.makeIterator()
            for (index, component) in components.enumerated() {
                var size: UInt32 = 0
                switch component {
                case .bytes(let bytes):
                    size = UInt32(bytes.count)
                    UnsafeMutableRawBufferPointer(rebasing: target[offset...]).copyBytes(from: bytes)
                case .port:
                    let right = ports.next()
                    size = UInt32(right?.size ?? 0)
                    write(right, to: target, at: offset)
                }
                offset += Int(size)
                if case .port = component { size |= Wire.portBit }
                target.setLittle(size, at: header.sizesOffset + 4 * index)
            }
        }
        return frame
    }

    /// A right on its way to the process of `port`.
    private static func wireRight(_ right: MachPort.SendRight?, to port: SendChannel) throws(PortError) -> WireRight? {
        guard let right else { return nil }
        return try right.channel.wireRight(leaving: !port.isLocal)
    }

    private static func emptyFrame(size: Int, to port: SendChannel) throws(PortError) -> Frame {
        let limit = min(port.messageLimit, Wire.largestMessage)
        guard size <= limit else {
            throw .messageTooLarge(port: port.id, size: size, limit: limit)
        }
        return try zeroMQ { () throws(ZeroMQError) in try Frame(count: size) }
    }

    private static func write(_ right: WireRight?, to bytes: UnsafeMutableRawBufferPointer, at offset: Int) {
        right?.write(to: UnsafeMutableRawBufferPointer(rebasing: bytes[offset...]))
    }
}
