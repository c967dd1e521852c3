/// The components of a typed message that go to another process faster as frozen memory than as a copy.
struct LargeBytes: Sendable {
    /// To make, send and read 12 MiB takes 12 ms as memory and 7 ms copied; 16 MiB takes 14 ms and 21 ms.
    static let least = 16 << 20

    private let components: [MachPort.Message.Component]
    /// The indices of the large components.
    private let indices: [Int]

    /// Nil without such components.
    init?(of components: [MachPort.Message.Component], least: Int = Self.least) {
        indices = components.indices.dropFirst().filter { index in
            switch components[index] {
            case .bytes(let bytes): bytes.count >= least
            case .port, .receiveRight: false
            case .descriptor(let descriptor): descriptor.memory != nil
            }
        }
        if indices.isEmpty { return nil }
        self.components = components
    }

    /// The message for another process. Where no memory or no way for descriptors is to be had, the bytes are copied.
    func frame(
        _ message: MachPort.Message, kind: Wire.Kind, request: UInt64, to port: SendChannel
    ) throws(PortError) -> OutgoingFrame {
        // Before memory is made. The limit counts bytes in memory, too.
        try port.check(size: try size(message, kind))
        let hasWay = port.passesMemory(indices.count)
        var sent = hasWay ? inMemory() : copied()
        let frame = try MessageEncoding.frame(message, sent, kind: kind, request: request, to: port)
        guard frame.descriptorToken != nil else { return OutgoingFrame(frame, wantsWay: !hasWay) }
        let descriptors = try MessageEncoding.handOverDescriptors(in: &sent)
        // Other descriptors need a way, too.
        guard descriptors.allSatisfy({ $0.memory != nil }) else { return OutgoingFrame(frame, descriptors) }
        return OutgoingFrame(frame, descriptors) { () throws(PortError) in
            try MessageEncoding.frame(message, copied(), kind: kind, request: request, to: port)
        }
    }

    /// The size of the frame with all bytes in it.
    private func size(_ message: MachPort.Message, _ kind: Wire.Kind) throws(PortError) -> Int {
        var header = FrameHeader(
            kind: kind, count: components.count, replySize: try message.replyPort?.channel.exposedRight().size ?? 0)
        var size = header.componentsOffset
        for component in components {
            switch component {
            case .bytes(let bytes): size += bytes.count
            case .port(let right): size += try right.channel.exposedRight().size
            case .receiveRight(let right): size += try right.offer.channel.exposedRight().size
            case .descriptor(let descriptor):
                if let memory = descriptor.memory { size += memory.byteCount } else { header.descriptorCount += 1 }
            }
        }
        return size + header.descriptorTokenSize
    }

    private func copied() -> [MachPort.Message.Component] {
        components.map { component in
            guard case .descriptor(let descriptor) = component, let memory = descriptor.memory else { return component }
            return memory.copy
        }
    }

    private func inMemory() -> [MachPort.Message.Component] {
        var components = components
        let others = components.count { if case .descriptor(let other) = $0 { other.memory == nil } else { false } }
        var room = MessageDescriptor.largestCount - others
        for index in indices {
            let lent = room > 0 ? Self.lent(components[index]) : nil
            if let lent {
                components[index] = .descriptor(lent)
                room -= 1
            } else if case .descriptor(let descriptor) = components[index], let memory = descriptor.memory {
                components[index] = memory.copy
            }
        }
        return components
    }

    /// The bytes of a large component in memory; nil when none is to be had.
    private static func lent(_ component: MachPort.Message.Component) -> MessageDescriptor? {
        switch component {
        case .bytes(let bytes):
            let memory = try? MappedMemory.frozen(copying: bytes.span.bytes)
            return memory.map { MessageDescriptor(lending: $0) }
        case .port, .receiveRight: return nil
        case .descriptor(let descriptor): return descriptor
        }
    }
}

extension MappedMemory {
    fileprivate var copy: MachPort.Message.Component {
        .bytes(Array(UnsafeRawBufferPointer(start: start, count: byteCount)))
    }
}
