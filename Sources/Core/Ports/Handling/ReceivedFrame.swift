import Glibc

/// A received frame that was checked.
final class ReceivedFrame: Sendable {
    let header: FrameHeader
    /// The fault of a malformed frame. The header of such a frame is empty, and nothing else of it may be read.
    let malformed: Wire.Malformed?
    /// Resolves the rights in the frame.
    let channels: ChannelTable
    private let frame: Frame
    /// The sender of a frame of a ring.
    private let ringSender: SenderCredentials?
    private let received: ReceivedDescriptors?

    /// - Parameters:
    ///   - passed: The descriptors that came for the frame.
    ///   - port: The channel to the port that has received them.
    init(
        _ frame: consuming Frame, sender: SenderCredentials? = nil, _ channels: ChannelTable,
        _ passed: PassedDescriptors? = nil, at port: SendChannel? = nil
    ) {
        var header = FrameHeader()
        var malformed: Wire.Malformed?
        frame.withUnsafeBytes { bytes in
            do throws(Wire.Malformed) { header = try FrameHeader(checking: bytes) } catch { malformed = error }
        }
        self.header = header
        self.malformed = malformed
        self.frame = frame
        ringSender = sender
        received = header.descriptorCount == 0 ? nil : ReceivedDescriptors(header.descriptorCount, of: passed, at: port)
        self.channels = channels
    }

    var size: Int { frame.count }

    var replyChannel: SendChannel? {
        guard header.replySize > 0 else { return nil }
        return frame.withUnsafeBytes { channel(in: $0, header.replyOffset..<header.componentsOffset) }
    }

    var components: [LocalMessage.Component] {
        frame.withUnsafeBytes { bytes in
            var rest = (received?.descriptors ?? [])[...]
            var components: [LocalMessage.Component] = []
            components.reserveCapacity(header.count)
            func add(right range: Range<Int>, _ make: (SendChannel) -> LocalMessage.Component) {
                components.append(channel(in: bytes, range).map(make) ?? .bytes(Array(bytes[range])))
            }
            header.forEachPart(in: bytes) { part in
                switch part {
                case .bytes(let range): components.append(.bytes(Array(bytes[range])))
                case .right(let range): add(right: range) { .port($0) }
                case .receiveRight(let range): add(right: range) { .offer($0) }
                case .descriptor: components.append(.descriptor(rest.removeFirst()))
                }
            }
            return components
        }
    }

    func readBytes(ofComponent index: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        frame.withUnsafeBytes { bytes in
            guard case .bytes(let range)? = header.part(index, in: bytes) else { return }
            body(UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
    }

    /// A component; nil for bytes, and behind the last component.
    func component(_ index: Int) -> LocalMessage.Component? {
        frame.withUnsafeBytes { bytes in
            switch header.part(index, in: bytes) {
            case .right(let range): channel(in: bytes, range).map { .port($0) }
            case .receiveRight(let range): channel(in: bytes, range).map { .offer($0) }
            case .descriptor:
                place(ofComponent: index).flatMap { place in received.map { .descriptor($0.descriptors[place]) } }
            case .bytes, nil: nil
            }
        }
    }

    /// The frozen memory in a component.
    func memory(ofComponent index: Int) throws(PortError) -> MappedMemory? {
        guard let place = place(ofComponent: index) else { return nil }
        return try received?.memory(place, besides: size)
    }

    /// The place of a component among the descriptors; nil for bytes and ports.
    private func place(ofComponent index: Int) -> Int? {
        guard received != nil else { return nil }
        return frame.withUnsafeBytes { bytes in
            guard case .descriptor? = header.part(index, in: bytes) else { return nil }
            return (0..<index).count { if case .descriptor? = header.part($0, in: bytes) { true } else { false } }
        }
    }

    /// The sender by the kernel's credentials of the connection; nil when the kernel does not say.
    var sender: SenderCredentials? {
        ringSender ?? frame.withProperty("Peer-Address") { SenderCredentials(peerAddress: $0) } ?? nil
    }

    private func channel(in bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> SendChannel? {
        // The rights were checked with the frame.
        let right = try? WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[range]))
        return right.map { channels.channel(to: $0) }
    }
}

extension LocalMessage {
    init(_ message: ReceivedMessage) {
        switch message {
        case .local(let message): self = message
        case .frame(let frame): self.init(frame)
        }
    }

    /// The message in a frame that was taken.
    init(_ frame: ReceivedFrame) {
        self.init(
            kind: frame.header.kind, id: frame.header.id, request: frame.header.request, components: frame.components,
            replyRight: frame.replyChannel, size: UInt32(clamping: frame.size),
            sender: frame.sender ?? SenderCredentials(pid: 0, uid: geteuid(), gid: getegid()))
    }
}
