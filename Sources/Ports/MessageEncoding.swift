import ZeroMQ

/// Builds messages for sending: local messages, which nothing copies, and frames, each with one allocation of libzmq's.
enum MessageEncoding {
    /// A message of any components. The ports in a frame are exposed first.
    static func outgoing(
        _ message: MachPort.Message, kind: Wire.Kind = .message, request: UInt64 = 0, to port: SendChannel
    ) throws(PortError) -> OutgoingMessage {
        var components = message.components
        guard port.isLocal else {
            let frame = try frame(message, components, kind: kind, request: request, to: port)
            let hasDescriptors = Wire.descriptorToken(of: frame) != nil
            return .frame(OutgoingFrame(frame, hasDescriptors ? try handOverDescriptors(in: &components) : nil))
        }
        let reply = message.replyPort?.channel
        let header = WireHeader(kind: kind, count: components.count, replySize: reply?.right.size ?? 0)
        var (size, hasDescriptors) = (header.componentsOffset, false)
        for component in components {
            switch component {
            case .bytes(let bytes): size += bytes.count
            // The size in a frame, as long as the port is not exposed.
            case .port(let right): size += right.channel.right.size
            case .descriptor: hasDescriptors = true
            }
        }
        let checkedSize = try port.check(size: size)
        let descriptors = hasDescriptors ? try handOverDescriptors(in: &components) : nil
        if components.count == 1 {
            return .local(
                LocalMessage(
                    kind: kind, id: message.id, request: request, component: components[0].local, replyRight: reply,
                    size: checkedSize), descriptors)
        }
        return .local(
            LocalMessage(
                kind: kind, id: message.id, request: request, components: components.map(\.local), replyRight: reply,
                size: checkedSize), descriptors)
    }

    /// Takes the descriptors out of their objects.
    /// - Returns: The objects in the components that have the descriptors now.
    private static func handOverDescriptors(
        in components: inout [MachPort.Message.Component]
    ) throws(PortError) -> [MessageDescriptor] {
        var handedOver: [MessageDescriptor] = []
        for (index, component) in components.enumerated() {
            guard case .descriptor(let descriptor) = component else { continue }
            let moved = try descriptor.handOver()
            components[index] = .descriptor(moved)
            handedOver.append(moved)
        }
        try PortError.check("descriptors", handedOver.count, in: 0...MessageDescriptor.largestCount)
        return handedOver
    }

    /// A message of one component of bytes.
    static func outgoing(
        id: UInt32, bytes: RawSpan, replyPort: MachPort.SendRight?, to port: SendChannel
    ) throws(PortError) -> OutgoingMessage {
        guard let queue = port.localQueue else {
            return .frame(OutgoingFrame(try frame(id: id, bytes: bytes, replyPort: replyPort, to: port)))
        }
        let reply = replyPort?.channel
        let header = WireHeader(count: 1, replySize: reply?.right.size ?? 0)
        let size = try port.check(size: header.componentsOffset + bytes.byteCount)
        return .local(LocalMessage(id: id, bytes: bytes, replyRight: reply, size: size, from: queue.pool), nil)
    }

    static func frame(
        id: UInt32, bytes: RawSpan, replyPort: MachPort.SendRight?, to port: SendChannel
    ) throws(PortError) -> ZeroMQFrame {
        let reply = try replyPort?.channel.exposedRight()
        let header = WireHeader(id: id, count: 1, replySize: reply?.size ?? 0)
        return try frame(header, reply, size: bytes.byteCount, to: port) { target in
            target.setLittle(UInt32(bytes.byteCount), at: header.sizesOffset)
            bytes.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: target[header.componentsOffset...]).copyMemory(from: $0)
            }
        }
    }

    static func frame(
        _ message: MachPort.Message, _ components: [MachPort.Message.Component], kind: Wire.Kind, request: UInt64,
        to port: SendChannel
    ) throws(PortError) -> ZeroMQFrame {
        let reply = try message.replyPort?.channel.exposedRight()
        var rights: [WireRight] = []
        var (size, descriptorCount) = (0, 0)
        for component in components {
            switch component {
            case .bytes(let bytes): size += bytes.count
            case .port(let right):
                let right = try right.channel.exposedRight()
                rights.append(right)
                size += right.size
            case .descriptor: descriptorCount += 1
            }
        }
        let header = WireHeader(
            kind: kind, id: message.id, request: request, count: components.count, replySize: reply?.size ?? 0,
            descriptorCount: descriptorCount)
        return try frame(header, reply, size: size, to: port) { target in
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
                case .descriptor: break
                }
                offset += Int(size)
                if case .bytes = component {} else { size |= Wire.portBit }
                target.setLittle(size, at: header.sizesOffset + 4 * index)
            }
        }
    }

    private static func frame(
        _ header: WireHeader, _ reply: WireRight?, size componentsSize: Int, to port: SendChannel,
        _ writeComponents: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(PortError) -> ZeroMQFrame {
        let size = header.componentsOffset + componentsSize + header.descriptorTokenSize
        try port.check(size: size)
        var frame = try zeroMQ { () throws(ZeroMQError) in try ZeroMQFrame(count: size) }
        frame.withUnsafeMutableBytes { target in
            header.write(to: target)
            write(reply, to: target, at: header.replyOffset)
            writeComponents(target)
        }
        // Set when the descriptors are sent. Memory that was used before may have the last token.
        if header.descriptorCount > 0 { Wire.setDescriptorToken(.init(socket: 0, packet: 0), of: &frame) }
        return frame
    }

    private static func write(_ right: WireRight?, to bytes: UnsafeMutableRawBufferPointer, at offset: Int) {
        right?.write(to: UnsafeMutableRawBufferPointer(rebasing: bytes[offset...]))
    }
}

extension MachPort.Message.Component {
    /// The component for a port of the same runtime.
    fileprivate var local: LocalMessage.Component {
        switch self {
        case .bytes(let bytes): .bytes(bytes)
        case .port(let right): .port(right.channel)
        case .descriptor(let descriptor): .descriptor(descriptor)
        }
    }
}
