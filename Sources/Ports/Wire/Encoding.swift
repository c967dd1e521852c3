import ZeroMQ

/// Builds frames: a size is known before any byte is written, so that a message costs one allocation, libzmq's own.
enum Encoding {
    /// A frame of one component of bytes.
    static func frame(
        id: UInt32, bytes: RawSpan, kind: Wire.Kind = .message, request: UInt64 = 0, reply: WireRight? = nil,
        to port: SendChannel
    ) throws(PortError) -> Frame {
        let header = WireHeader(
            kind: kind, id: id, request: request, count: 1, replySize: reply?.size ?? 0, origin: port.mark)
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

    /// A frame of any components. Ports in it are made ready to be reached first, unless it stays in this process.
    static func frame(
        _ message: MachPort.Message, kind: Wire.Kind = .message, request: UInt64 = 0, to port: SendChannel
    ) throws(PortError) -> Frame {
        let components = message.components
        let reply = try message.replyPort?.wireRight(to: port)
        var rights: [WireRight] = []
        var size = 0
        for component in components {
            switch component {
            case .bytes(let bytes): size += bytes.count
            case .port(let right):
                rights.append(try right.wireRight(to: port))
                size += rights[rights.count - 1].size
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

    /// The question whether all that came before has been taken.
    static func drainQuestion(_ number: UInt64, from origin: UInt32) throws(PortError) -> Frame {
        let header = WireHeader(kind: .drainQuestion, request: number, origin: origin)
        var frame = try zeroMQ { () throws(ZeroMQError) in try Frame(count: header.componentsOffset) }
        frame.withUnsafeMutableBytes { header.write(to: $0) }
        return frame
    }

    private static func emptyFrame(size: Int, to port: SendChannel) throws(PortError) -> Frame {
        let limit = min(port.messageLimit, Wire.largestMessage)
        guard size <= limit else {
            throw .messageTooLarge(port: port.description, size: size, limit: limit)
        }
        return try zeroMQ { () throws(ZeroMQError) in try Frame(count: size) }
    }

    private static func write(_ right: WireRight?, to bytes: UnsafeMutableRawBufferPointer, at offset: Int) {
        right?.write(to: UnsafeMutableRawBufferPointer(rebasing: bytes[offset...]))
    }
}
