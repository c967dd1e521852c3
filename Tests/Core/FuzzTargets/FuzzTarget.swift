import ZeroMQ

@testable import Ports

/// A decoder of what other processes say, which has to keep its word whatever they say.
public enum FuzzTarget: String, CaseIterable, Sendable {
    /// Messages, with the rights in them.
    case frame
    /// The packets of control connections.
    case control
    /// Entries of the registry.
    case entry
    /// Typed values.
    case value
    /// Answers to questions about ports.
    case answer
    /// The bytes that a sender has written into a ring.
    case ring
    /// The packets with descriptors, and the messages that they belong to.
    case descriptors
    /// The frames that other machines send over NATS.
    case network

    /// Decodes the bytes as far as they let it, and encodes what has come of it.
    ///
    /// - Returns: What is wrong with that; nil when nothing is.
    public func fault(in bytes: UnsafeRawBufferPointer) -> String? {
        switch self {
        case .frame: Self.faultOfFrame(bytes)
        case .control: Self.faultOfMessage(bytes) ?? Self.faultOfHello(bytes)
        case .entry: Self.faultOfEntry(bytes)
        case .value: FuzzedValue.fault(in: bytes)
        case .answer: FuzzedAnswer.fault(in: Array(bytes))
        case .ring: FuzzedRing.fault(in: bytes)
        case .descriptors: FuzzedDescriptors.fault(in: bytes)
        case .network: FuzzedNetworkFrame.fault(in: Array(bytes))
        }
    }

    /// Good input of all kinds, to begin with.
    public var seeds: [[UInt8]] {
        switch self {
        case .frame: Samples.frames
        case .control: Samples.packets
        case .entry: Samples.entries
        case .value: FuzzedValue.seeds
        case .answer: FuzzedAnswer.seeds
        case .ring: FuzzedRing.seeds
        case .descriptors: FuzzedDescriptors.seeds
        case .network: FuzzedNetworkFrame.seeds
        }
    }

    // MARK: Frames

    private static func faultOfFrame(_ bytes: UnsafeRawBufferPointer) -> String? {
        // First where they are: the buffer has exactly this length, which shows a step too far.
        guard let header = try? FrameHeader(checking: bytes) else { return faultOfMalformed(bytes) }
        let copy = encoded(header, bytes)
        guard copy.elementsEqual(bytes) else { return "encoded, it is another frame" }
        return faultOfContents(header, bytes)
    }

    private static func faultOfMalformed(_ bytes: UnsafeRawBufferPointer) -> String? {
        guard let frame = madeFrame(bytes) else { return "no memory" }
        return ReceivedFrame(frame, PortRuntime.shared.channels).malformed == nil ? "malformed, and then good" : nil
    }

    /// The same again, from what was understood of it.
    private static func encoded(_ header: FrameHeader, _ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        var copy = [UInt8](repeating: 0, count: bytes.count)
        func right(_ range: Range<Int>, _ target: UnsafeMutableRawBufferPointer) {
            guard !range.isEmpty else { return }
            let right = try? WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[range]))
            right?.write(to: UnsafeMutableRawBufferPointer(rebasing: target[range]))
        }
        copy.withUnsafeMutableBytes { target in
            header.write(to: target)
            right(header.replyOffset..<header.componentsOffset, target)
            var offset = header.componentsOffset
            for index in 0..<header.count {
                let field: UInt32 = bytes.little(at: header.sizesOffset + 4 * index)
                target.setLittle(field, at: header.sizesOffset + 4 * index)
                let range = offset..<offset + FrameHeader.length(field)
                if field & Wire.portBit != 0 {
                    right(range, target)
                } else {
                    UnsafeMutableRawBufferPointer(rebasing: target[range])
                        .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[range]))
                }
                offset = range.upperBound
            }
            let token = offset..<offset + header.descriptorTokenSize
            UnsafeMutableRawBufferPointer(rebasing: target[token])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[token]))
        }
        return copy
    }

    /// Reads all that a receiver can, and sends it on.
    private static func faultOfContents(_ header: FrameHeader, _ bytes: UnsafeRawBufferPointer) -> String? {
        guard let frame = madeFrame(bytes) else { return "no memory" }
        let received = ReceivedFrame(frame, PortRuntime.shared.channels)
        guard received.header == header, received.malformed == nil else { return "read twice, it differs" }
        let message = MachPort.Message(.frame(received))
        let components = message.components
        guard components.count == header.count else { return "components are lost" }
        // As it would come from a process that moves a port.
        _ = (message.waiting, message.numbers, message.text(ofComponent: 0))
        for (index, component) in components.enumerated() {
            let size = message.withBytes(ofComponent: index) { $0.byteCount }
            switch component {
            case .bytes(let bytes): if size != bytes.count { return "component \(index) has another size" }
            case .port: if size != nil { return "component \(index) is a port, and bytes" }
            case .receiveRight(let right):
                guard size == nil, message.port(ofComponent: index) == nil,
                    message.receiveRight(ofComponent: index) == right
                else { return "component \(index) is another right to receive" }
                continue
            case .descriptor(let descriptor):
                if size != nil { return "component \(index) is a descriptor, and bytes" }
                guard (try? descriptor.number) == nil, message.descriptor(ofComponent: index) == descriptor else {
                    return "component \(index) is another descriptor"
                }
                continue
            }
            guard message.port(ofComponent: index).map({ .port($0) == component }) ?? (size != nil) else {
                return "component \(index) is another port"
            }
        }
        if header.descriptorCount > 0 {
            // A message without its descriptors cannot be sent on.
            let isSent = (try? MessageEncoding.outgoing(message, to: port.sendRight.channel)) != nil
            return isSent ? "descriptors that have not come are sent on" : nil
        }
        guard (message.replyPort != nil) == (header.replySize > 0) else { return "the reply port is lost" }
        guard
            let again = try? port.sendRight.channel.frame(
                kind: header.kind, id: header.id, request: header.request, components.map(\.local),
                replyRight: message.replyPort?.channel, { $0 })
        else { return "it cannot be sent on" }
        let resent = ReceivedFrame(again, PortRuntime.shared.channels)
        let second = MachPort.Message(.frame(resent))
        guard resent.malformed == nil, resent.header.kind == header.kind, resent.header.request == header.request,
            second.components == components, second.replyPort == message.replyPort
        else { return "sent on, it is another message" }
        return nil
    }

    /// Where messages are sent on to, though they do not leave.
    private static let port: MachPort = {
        guard let port = try? MachPort() else { preconditionFailure("no port") }
        return port
    }()

    private static func madeFrame(_ bytes: UnsafeRawBufferPointer) -> ZeroMQFrame? {
        guard var frame = try? ZeroMQFrame(count: bytes.count) else { return nil }
        frame.withUnsafeMutableBytes { $0.copyMemory(from: bytes) }
        return frame
    }

    // MARK: Control packets

    private static func faultOfMessage(_ bytes: UnsafeRawBufferPointer) -> String? {
        guard let message = ControlMessage(bytes) else { return nil }
        return Samples.packet(message).elementsEqual(bytes) ? nil : "encoded, it is another message"
    }

    private static func faultOfHello(_ bytes: UnsafeRawBufferPointer) -> String? {
        guard let hello = ControlHello(bytes) else { return nil }
        var copy = [UInt8](repeating: 0, count: ControlHello.size)
        copy.withUnsafeMutableBytes { hello.write(to: $0) }
        // Another version may say more, in what is zero now and at the end.
        let isSame = copy[..<5].elementsEqual(bytes[..<5]) && copy[8..<28].elementsEqual(bytes[8..<28])
        return isSame ? nil : "encoded, it is another hello"
    }

    // MARK: Entries

    private static func faultOfEntry(_ bytes: UnsafeRawBufferPointer) -> String? {
        guard let entry = try? NameEntry(Array(bytes), path: "/x") else { return nil }
        // Its lines may have come in any order, and there may be others.
        guard let again = try? NameEntry(entry.bytes, path: "/x") else { return "encoded, it is no entry" }
        guard again == entry else { return "encoded, it is another entry" }
        guard (try? NameEntry.fileName(for: entry.name)) != nil else { return "it has no file" }
        var right = [UInt8](repeating: 0, count: entry.right.size)
        right.withUnsafeMutableBytes { entry.right.write(to: $0) }
        let read = right.withUnsafeBytes { try? WireRight(checking: $0) }
        return read == entry.right ? nil : "its right cannot be sent"
    }
}
