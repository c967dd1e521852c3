import ZeroMQ

/// A received frame that was checked.
final class ReceivedFrame: Sendable {
    let header: WireHeader
    /// The fault of a malformed frame. Its header is empty, and nothing else of it may be read.
    let malformed: Wire.Malformed?
    /// Resolves the rights in the frame.
    let channels: ChannelTable
    private let frame: Frame

    init(_ frame: consuming Frame, _ channels: ChannelTable) {
        var header = WireHeader()
        var malformed: Wire.Malformed?
        frame.readBytes { bytes in
            do throws(Wire.Malformed) {
                header = try WireHeader(checking: bytes)
            } catch {
                malformed = error
            }
        }
        self.header = header
        self.malformed = malformed
        self.frame = frame
        self.channels = channels
    }

    /// The channel to the reply port.
    var replyChannel: SendChannel? {
        guard header.replySize > 0 else { return nil }
        return frame.withUnsafeBytes { channel(in: $0, at: header.replyOffset, size: header.replySize) }
    }

    var components: [LocalMessage.Component] {
        mapComponents { bytes, offset, size, isPort in
            if isPort, let channel = channel(in: bytes, at: offset, size: size) { return .port(channel) }
            return .bytes(Array(bytes[offset..<offset + size]))
        }
    }

    /// The text for each component in a description of the message.
    var componentDescriptions: [String] {
        mapComponents { bytes, offset, size, isPort in
            isPort ? right(in: bytes, at: offset, size: size)?.id.description ?? "" : "\(size) bytes"
        }
    }

    private func mapComponents<Result>(
        _ body: (_ bytes: UnsafeRawBufferPointer, _ offset: Int, _ size: Int, _ isPort: Bool) -> Result
    ) -> [Result] {
        frame.withUnsafeBytes { bytes in
            var offset = header.componentsOffset
            return (0..<header.count).map { index in
                let field = sizeField(index, in: bytes)
                let size = Int(field & ~Wire.portBit)
                defer { offset += size }
                return body(bytes, offset, size, field & Wire.portBit != 0)
            }
        }
    }

    func readBytes(ofComponent index: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        guard (0..<header.count).contains(index) else { return }
        frame.readBytes { bytes in
            let (offset, size, isPort) = place(of: index, in: bytes)
            if !isPort { body(UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + size])) }
        }
    }

    /// The process that has sent the frame, by the kernel's credentials of the connection that has brought the frame;
    /// nil when the kernel does not say.
    var sender: MessageSender? {
        // "localhost:UID:GID:PID"
        let fields = (frame.property("Peer-Address") ?? "").split(separator: ":").suffix(3)
        guard fields.count == 3, let uid = UInt32(fields[fields.startIndex]),
            let gid = UInt32(fields[fields.startIndex + 1]), let pid = Int32(fields[fields.startIndex + 2])
        else { return nil }
        return .init(pid: pid, uid: uid, gid: gid)
    }

    private func place(of index: Int, in bytes: UnsafeRawBufferPointer) -> (offset: Int, size: Int, isPort: Bool) {
        var offset = header.componentsOffset
        for earlier in 0..<index { offset += Int(sizeField(earlier, in: bytes) & ~Wire.portBit) }
        let size = sizeField(index, in: bytes)
        return (offset, Int(size & ~Wire.portBit), size & Wire.portBit != 0)
    }

    private func sizeField(_ index: Int, in bytes: UnsafeRawBufferPointer) -> UInt32 {
        bytes.little(at: header.sizesOffset + 4 * index)
    }

    private func channel(in bytes: UnsafeRawBufferPointer, at offset: Int, size: Int) -> SendChannel? {
        right(in: bytes, at: offset, size: size).map { channels.channel(to: $0) }
    }

    private func right(in bytes: UnsafeRawBufferPointer, at offset: Int, size: Int) -> WireRight? {
        // The rights were checked with the frame.
        try? WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + size]))
    }
}
