// Frames for ports of other processes, each with one allocation of libzmq's.

extension SendChannel {
    /// A frame of any components. The ports in it are exposed first.
    /// - Parameter content: The content of a component.
    func frame<Component>(
        kind: Wire.Kind, id: UInt32, request: UInt64, _ components: [Component], replyRight: SendChannel?,
        _ content: (Component) -> LocalMessage.Component
    ) throws(PortError) -> Frame {
        let reply = try replyRight?.exposedRight()
        var rights: [WireRight] = []
        var (size, descriptorCount) = (0, 0)
        for component in components {
            switch content(component) {
            case .bytes(let bytes): size += bytes.count
            case .port(let port), .offer(let port):
                let right = try port.exposedRight()
                rights.append(right)
                size += right.size
            case .descriptor: descriptorCount += 1
            }
        }
        let header = FrameHeader(
            kind: kind, id: id, request: request, count: components.count, replySize: reply?.size ?? 0,
            descriptorCount: descriptorCount)
        return try frame(header, reply, size: size) { target in
            var offset = header.componentsOffset
            var rest = rights.makeIterator()
            func writeRight() -> UInt32 {
                let right = rest.next()
                Self.write(right, to: target, at: offset)
                return UInt32(right?.size ?? 0)
            }
            for (index, component) in components.enumerated() {
                let (size, flags): (UInt32, UInt32)
                switch content(component) {
                case .bytes(let bytes):
                    (size, flags) = (UInt32(bytes.count), 0)
                    UnsafeMutableRawBufferPointer(rebasing: target[offset...]).copyBytes(from: bytes)
                case .port: (size, flags) = (writeRight(), Wire.portBit)
                case .offer: (size, flags) = (writeRight(), Wire.portBit | Wire.receiveBit)
                case .descriptor: (size, flags) = (0, Wire.portBit)
                }
                offset += Int(size)
                target.setLittle(size | flags, at: header.sizesOffset + 4 * index)
            }
        }
    }

    /// The frame of a message that was made for a port of this runtime.
    func frame(of message: LocalMessage) throws(PortError) -> Frame {
        let header = message.header
        return try frame(
            kind: header.kind, id: header.id, request: header.request, message.components,
            replyRight: message.replyRight
        ) { $0 }
    }

    /// A frame whose components `writeComponents` writes.
    func frame(
        _ header: FrameHeader, _ reply: WireRight?, size componentsSize: Int,
        _ writeComponents: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(PortError) -> Frame {
        let size = header.componentsOffset + componentsSize + header.descriptorTokenSize
        try check(size: size)
        var frame = try Frame(size: size)
        frame.withUnsafeMutableBytes { target in
            header.write(to: target)
            Self.write(reply, to: target, at: header.replyOffset)
            writeComponents(target)
        }
        // Set when the descriptors are sent. Memory that was used before may have the last token.
        if header.descriptorCount > 0 { frame.setDescriptorToken(.init(socket: 0, packet: 0)) }
        return frame
    }

    private static func write(_ right: WireRight?, to bytes: UnsafeMutableRawBufferPointer, at offset: Int) {
        right?.write(to: UnsafeMutableRawBufferPointer(rebasing: bytes[offset...]))
    }
}
