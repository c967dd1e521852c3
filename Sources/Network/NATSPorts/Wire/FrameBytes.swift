#if NATS
    import Ports
    import TypedPorts

    /// Writes the parts of a frame. Numbers are little-endian.
    struct FrameWriter {
        /// The first bytes of each frame.
        static let magic: [UInt8] = [0x50, 0x52, 0x54]
        /// The version of the format, which follows.
        static let version: UInt8 = 1

        private(set) var bytes: [UInt8]

        /// - Parameter components: The parts that are appended later, for which there is room.
        init(_ kind: UInt8, _ components: [[UInt8]] = []) {
            bytes = []
            bytes.reserveCapacity(components.reduce(64) { $0 + 4 + $1.count })
            bytes += Self.magic + [Self.version, kind]
        }

        mutating func append(_ number: some FixedWidthInteger) {
            withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
        }

        mutating func append(_ part: [UInt8]) {
            append(UInt32(clamping: part.count))
            bytes += part
        }

        mutating func append(_ text: String) { append(Array(text.utf8)) }

        mutating func append(_ parts: [[UInt8]]) {
            append(UInt16(clamping: parts.count))
            for part in parts { append(part) }
        }
    }

    /// Reads the parts of a frame, which anybody may have sent.
    struct FrameReader {
        private let bytes: [UInt8]
        private var offset: Int

        struct Malformed: Error {
            /// The version of a frame of another version; nil for what is no frame.
            var version: UInt8?
        }

        let kind: UInt8

        init(_ bytes: [UInt8]) throws(Malformed) {
            offset = FrameWriter.magic.count + 2
            guard bytes.count >= offset, bytes.starts(with: FrameWriter.magic) else { throw Malformed() }
            let version = bytes[offset - 2]
            guard version == FrameWriter.version else { throw Malformed(version: version) }
            kind = bytes[offset - 1]
            self.bytes = bytes
        }

        mutating func number<Number: FixedWidthInteger & BitwiseCopyable>(
            _ type: Number.Type = Number.self
        ) throws(Malformed) -> Number {
            let size = MemoryLayout<Number>.size
            guard size <= bytes.count - offset else { throw Malformed() }
            defer { offset += size }
            return Number(littleEndian: bytes.span.bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: Number.self))
        }

        mutating func part() throws(Malformed) -> [UInt8] {
            let count = Int(try number(UInt32.self))
            guard count <= bytes.count - offset else { throw Malformed() }
            defer { offset += count }
            return Array(bytes[offset..<offset + count])
        }

        mutating func text() throws(Malformed) -> String { String(decoding: try part(), as: UTF8.self) }

        mutating func parts() throws(Malformed) -> [[UInt8]] {
            let count = try number(UInt16.self)
            var parts: [[UInt8]] = []
            for _ in 0..<count { parts.append(try part()) }
            return parts
        }
    }

    extension MachPort.Message {
        /// The components as bytes, which can go to another machine.
        /// - Throws: `NetworkRequestError.staysHere`.
        func networkComponents() throws -> [[UInt8]] {
            try components.map { component in
                switch component {
                case .bytes(let bytes): return bytes
                case .descriptor(let descriptor):
                    // The bytes of a `MessageBytes` that came as memory.
                    guard let memory = descriptor.lentMemory else {
                        throw NetworkRequestError.staysHere(what: "a descriptor, or shared memory,")
                    }
                    return memory.withBytes { bytes in bytes.withUnsafeBytes { Array($0) } }
                case .port, .receiveRight: throw NetworkRequestError.staysHere(what: "a right to a port")
                }
            }
        }
    }
#endif
