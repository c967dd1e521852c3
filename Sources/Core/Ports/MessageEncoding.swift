/// Builds messages for sending: local messages, which nothing copies, and frames.
enum MessageEncoding {
    /// A message of any components. The ports in a frame are exposed first.
    static func outgoing(
        _ message: MachPort.Message, kind: Wire.Kind = .message, request: UInt64 = 0, to port: SendChannel
    ) throws(PortError) -> OutgoingMessage {
        var components = message.components
        guard port.isLocal else {
            if message.mayUseMemory, let large = LargeBytes(of: components) {
                return .frame(try large.frame(message, kind: kind, request: request, to: port))
            }
            let frame = try frame(message, components, kind: kind, request: request, to: port)
            let hasDescriptors = frame.descriptorToken != nil
            return .frame(OutgoingFrame(frame, hasDescriptors ? try handOverDescriptors(in: &components) : nil))
        }
        let reply = message.replyPort?.first
        let header = FrameHeader(kind: kind, count: components.count, replySize: reply?.right.size ?? 0)
        var (size, hasDescriptors) = (header.componentsOffset, false)
        for component in components {
            switch component {
            case .bytes(let bytes): size += bytes.count
            // The size in a frame, as long as the port is not exposed.
            case .port(let right): size += right.first.right.size
            case .receiveRight(let right): size += right.offer.first.right.size
            case .descriptor(let descriptor):
                hasDescriptors = true
                size += descriptor.memory?.byteCount ?? 0
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

    /// A frame of these components, with the message's reply port.
    static func frame(
        _ message: MachPort.Message, _ components: [MachPort.Message.Component], kind: Wire.Kind, request: UInt64,
        to port: SendChannel
    ) throws(PortError) -> Frame {
        try port.frame(
            kind: kind, id: message.id, request: request, components, replyRight: message.replyPort?.first
        ) { $0.local }
    }

    /// Takes the descriptors out of their objects.
    /// - Returns: The objects in the components that have the descriptors now.
    static func handOverDescriptors(
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
        let reply = replyPort?.first
        let header = FrameHeader(count: 1, replySize: reply?.right.size ?? 0)
        let size = try port.check(size: header.componentsOffset + bytes.byteCount)
        return .local(LocalMessage(id: id, bytes: bytes, replyRight: reply, size: size, from: queue.pool), nil)
    }

    static func frame(
        id: UInt32, bytes: RawSpan, replyPort: MachPort.SendRight?, to port: SendChannel
    ) throws(PortError) -> Frame {
        let reply = try replyPort?.first.exposedRight()
        let header = FrameHeader(id: id, count: 1, replySize: reply?.size ?? 0)
        return try port.frame(header, reply, size: bytes.byteCount) { target in
            target.setLittle(UInt32(bytes.byteCount), at: header.sizesOffset)
            bytes.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: target[header.componentsOffset...]).copyMemory(from: $0)
            }
        }
    }
}

extension MachPort.Message.Component {
    /// The component for a port of the same runtime.
    var local: LocalMessage.Component {
        switch self {
        case .bytes(let bytes): .bytes(bytes)
        case .port(let right): .port(right.first)
        case .receiveRight(let right): .offer(right.offer.first)
        case .descriptor(let descriptor): .descriptor(descriptor)
        }
    }
}
