import ZeroMQ

/// A received frame that was checked.
final class ReceivedFrame: Sendable {
    let header: WireHeader
    /// The fault of a malformed frame. The header of such a frame is empty, and nothing else of it may be read.
    let malformed: Wire.Malformed?
    /// Resolves the rights in the frame.
    let channels: ChannelTable
    private let frame: ZeroMQFrame
    /// The sender of a frame of a lane.
    private let laneSender: MessageSender?
    private let descriptors: [MessageDescriptor]

    /// - Parameter passed: The descriptors that came for the frame.
    init(
        _ frame: consuming ZeroMQFrame, sender: MessageSender? = nil, _ channels: ChannelTable,
        _ passed: PassedDescriptors? = nil
    ) {
        var header = WireHeader()
        var malformed: Wire.Malformed?
        frame.withUnsafeBytes { bytes in
            do throws(Wire.Malformed) { header = try WireHeader(checking: bytes) } catch { malformed = error }
        }
        self.header = header
        self.malformed = malformed
        self.frame = frame
        laneSender = sender
        descriptors =
            header.descriptorCount == 0 ? [] : PassedDescriptors.descriptors(header.descriptorCount, of: passed)
        self.channels = channels
    }

    var size: Int { frame.count }

    var replyChannel: SendChannel? {
        guard header.replySize > 0 else { return nil }
        return frame.withUnsafeBytes { channel(in: $0, at: header.replyOffset, size: header.replySize) }
    }

    var components: [LocalMessage.Component] {
        frame.withUnsafeBytes { bytes in
            var (offset, rest) = (header.componentsOffset, descriptors[...])
            return (0..<header.count).map { index in
                let (size, isPort) = size(of: index, in: bytes)
                defer { offset += size }
                if isPort, size == 0 { return .descriptor(rest.removeFirst()) }
                if isPort, let channel = channel(in: bytes, at: offset, size: size) { return .port(channel) }
                return .bytes(Array(bytes[offset..<offset + size]))
            }
        }
    }

    func readBytes(ofComponent index: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        frame.withUnsafeBytes { bytes in
            guard let (range, isPort) = range(ofComponent: index, in: bytes), !isPort else { return }
            body(UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
    }

    func channel(ofComponent index: Int) -> SendChannel? {
        frame.withUnsafeBytes { bytes in
            guard let (range, isPort) = range(ofComponent: index, in: bytes), isPort, !range.isEmpty else { return nil }
            return channel(in: bytes, at: range.lowerBound, size: range.count)
        }
    }

    func descriptor(ofComponent index: Int) -> MessageDescriptor? {
        guard !descriptors.isEmpty else { return nil }
        return frame.withUnsafeBytes { bytes in
            guard let (range, isPort) = range(ofComponent: index, in: bytes), isPort, range.isEmpty else { return nil }
            // The place among the descriptors.
            return descriptors[(0..<index).count { size(of: $0, in: bytes) == (0, true) }]
        }
    }

    @inline(__always)
    private func range(
        ofComponent index: Int, in bytes: UnsafeRawBufferPointer
    ) -> (range: Range<Int>, isPort: Bool)? {
        guard (0..<header.count).contains(index) else { return nil }
        var offset = header.componentsOffset
        for earlier in 0..<index { offset += size(of: earlier, in: bytes).bytes }
        let (size, isPort) = size(of: index, in: bytes)
        return (offset..<offset + size, isPort)
    }

    /// The sender by the kernel's credentials of the connection; nil when the kernel does not say.
    var sender: MessageSender? {
        laneSender ?? frame.withProperty("Peer-Address") { MessageSender(peerAddress: $0) } ?? nil
    }

    private func size(of index: Int, in bytes: UnsafeRawBufferPointer) -> (bytes: Int, isPort: Bool) {
        let field: UInt32 = bytes.little(at: header.sizesOffset + 4 * index)
        return (Int(field & ~Wire.portBit), field & Wire.portBit != 0)
    }

    private func channel(in bytes: UnsafeRawBufferPointer, at offset: Int, size: Int) -> SendChannel? {
        // The rights were checked with the frame.
        let right = try? WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + size]))
        return right.map { channels.channel(to: $0) }
    }
}
