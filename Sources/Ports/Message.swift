import Glibc
import ZeroMQ

extension MachPort {
    /// What is sent from port to port: a number, components, and the port that an answer goes to.
    /// The corresponding class is NSPortMessage.
    ///
    ///     try right.send(MachPort.Message(id: 7, [.bytes(Array("hello".utf8)), .port(mine.sendRight)]))
    ///
    /// A received message keeps its bytes where they arrived; they are copied only when they are asked for as an array.
    public struct Message: Sendable, CustomStringConvertible {
        /// A part of a message.
        public enum Component: Sendable, Hashable {
            /// Bytes, of any number, zero too.
            case bytes([UInt8])
            /// A right to send to a port, in whichever process that is.
            case port(SendRight)
        }

        /// The sender's number for what the message is about. NSPortMessage calls it `msgid`.
        public var id: UInt32

        /// The port for answers. NSPortMessage calls it `receivePort` in the sender and `sendPort` in the receiver.
        public var replyPort: SendRight? {
            get {
                switch content {
                case .built(_, let replyPort): replyPort
                case .received(let frame): frame.replyPort
                }
            }
            set { content = .built(components, newValue) }
        }

        /// The parts, in order.
        public var components: [Component] {
            get {
                switch content {
                case .built(let components, _): components
                case .received(let frame): frame.components
                }
            }
            set { content = .built(newValue, replyPort) }
        }

        private enum Content {
            case built([Component], SendRight?)
            case received(ReceivedFrame)
        }

        private var content: Content

        /// Makes a message.
        ///
        /// - Parameters:
        ///   - id: What it is about.
        ///   - components: Its parts.
        ///   - replyPort: Where an answer should go.
        public init(id: UInt32 = 0, _ components: [Component] = [], replyPort: SendRight? = nil) {
            self.id = id
            content = .built(components, replyPort)
        }

        init(_ frame: ReceivedFrame) {
            id = frame.header.id
            content = .received(frame)
        }

        /// What it holds, but not the bytes themselves.
        public var description: String {
            let parts = components.map { component in
                switch component {
                case .bytes(let bytes): "\(bytes.count) bytes"
                case .port(let right): right.description
                }
            }
            let origin = sender.map { " of process \($0.pid)" } ?? ""
            let reply = replyPort.map { ", reply to \($0)" } ?? ""
            return "message \(id)\(origin): \(parts.isEmpty ? "empty" : parts.joined(separator: ", "))\(reply)"
        }

        /// Who sent it, in the kernel's words; nil for a message that was not received, or when the kernel does not say.
        public var sender: Sender? {
            if case .received(let frame) = content { frame.sender } else { nil }
        }

        /// Lets `body` read the bytes of a component where they are; nil for a port, or past the last component.
        public func withBytes<R>(ofComponent index: Int = 0, _ body: (RawSpan) throws -> R) rethrows -> R? {
            switch content {
            case .built(let components, _):
                guard components.indices.contains(index), case .bytes(let bytes) = components[index] else { return nil }
                return try body(bytes.span.bytes)
            case .received(let frame):
                return try frame.withBytes(ofComponent: index, body)
            }
        }

        /// The process that sent a message.
        public struct Sender: Sendable, Hashable {
            /// Its process id.
            public let pid: pid_t
            /// Its effective user when it connected.
            public let uid: uid_t
            /// Its effective group when it connected.
            public let gid: gid_t
        }
    }
}

/// A frame that has arrived.
final class ReceivedFrame: Sendable {
    let header: WireHeader
    /// What is wrong with it; a frame with anything wrong has an empty header, and is not to be read.
    let malformed: Wire.Malformed?
    private let frame: Frame

    init(_ frame: consuming Frame) {
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
    }

    var replyPort: MachPort.SendRight? {
        guard header.replySize > 0 else { return nil }
        return frame.withUnsafeBytes { right(in: $0, at: header.replyOffset, size: header.replySize) }
    }

    var components: [MachPort.Message.Component] {
        frame.withUnsafeBytes { bytes in
            var offset = header.componentsOffset
            return (0..<header.count).map { index in
                let field = sizeField(index, in: bytes)
                let size = Int(field & ~Wire.portBit)
                defer { offset += size }
                if field & Wire.portBit != 0, let right = right(in: bytes, at: offset, size: size) {
                    return .port(right)
                }
                return .bytes(Array(bytes[offset..<offset + size]))
            }
        }
    }

    func withBytes<R>(ofComponent index: Int, _ body: (RawSpan) throws -> R) rethrows -> R? {
        guard (0..<header.count).contains(index) else { return nil }
        var (offset, size, isPort) = (0, 0, false)
        frame.readBytes { bytes in (offset, size, isPort) = place(of: index, in: bytes) }
        if isPort { return nil }
        // Not together with the place: an optional of a generic type is looked up at each call.
        return try frame.withUnsafeBytes { bytes in
            try body(UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + size]).bytes)
        }
    }

    /// Nil when it is not known.
    var sender: MachPort.Message.Sender? {
        if isOwn { return .init(pid: getpid(), uid: geteuid(), gid: getegid()) }
        // "localhost:UID:GID:PID", which libzmq has from the kernel.
        let fields = (address ?? "").split(separator: ":").suffix(3)
        guard fields.count == 3, let uid = uid_t(fields[fields.startIndex]),
            let gid = gid_t(fields[fields.startIndex + 1]),
            let pid = pid_t(fields[fields.startIndex + 2])
        else { return nil }
        return .init(pid: pid, uid: uid, gid: gid)
    }

    /// Whether this process has sent it: it has the process's mark, and no connection has brought it.
    var isOwn: Bool { header.origin == PortProcess.current.mark && address == nil }

    private var address: String? { frame.property("Peer-Address") }

    private func place(of index: Int, in bytes: UnsafeRawBufferPointer) -> (offset: Int, size: Int, isPort: Bool) {
        var offset = header.componentsOffset
        for earlier in 0..<index { offset += Int(sizeField(earlier, in: bytes) & ~Wire.portBit) }
        let size = sizeField(index, in: bytes)
        return (offset, Int(size & ~Wire.portBit), size & Wire.portBit != 0)
    }

    private func sizeField(_ index: Int, in bytes: UnsafeRawBufferPointer) -> UInt32 {
        bytes.little(at: header.sizesOffset + 4 * index)
    }

    private func right(in bytes: UnsafeRawBufferPointer, at offset: Int, size: Int) -> MachPort.SendRight? {
        // It was checked with the frame.
        (try? WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + size]))).map {
            MachPort.SendRight(PortProcess.current.channel(to: $0))
        }
    }
}
