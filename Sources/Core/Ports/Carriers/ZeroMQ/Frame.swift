import ZeroMQ

/// The bytes of a message between processes, by a ring or by ZeroMQ. They are in memory of libzmq, whose sockets send and
/// receive them without a copy.
typealias Frame = ZeroMQFrame

extension Frame {
    /// Makes a frame of uninitialized bytes.
    /// - Throws: ``PortError`` when no memory is left.
    init(size: Int) throws(PortError) { self = try zeroMQ { () throws(ZeroMQError) in try Frame(count: size) } }

    /// Reads an unchecked frame. A malformed frame may look like a probe.
    var isDrainProbe: Bool {
        withUnsafeBytes { $0.count >= Wire.headerSize && $0[2] == Wire.Kind.drainProbe.rawValue }
    }

    /// The place of the descriptors of the message. Reads an unchecked frame; nil for a message without descriptors.
    var descriptorToken: Wire.DescriptorToken? {
        withUnsafeBytes { bytes in
            let start = bytes.count - Wire.DescriptorToken.size
            guard start >= Wire.headerSize, bytes[2] & Wire.descriptorsBit != 0 else { return nil }
            return Wire.DescriptorToken(socket: bytes.little(at: start), packet: bytes.little(at: start + 8))
        }
    }

    mutating func setDescriptorToken(_ token: Wire.DescriptorToken) {
        withUnsafeMutableBytes { bytes in
            bytes.setLittle(token.socket, at: bytes.count - Wire.DescriptorToken.size)
            bytes.setLittle(token.packet, at: bytes.count - Wire.DescriptorToken.size + 8)
        }
    }

    mutating func setOrigin(_ origin: UInt32) {
        withUnsafeMutableBytes { if $0.count >= Wire.headerSize { $0.setLittle(origin, at: 12) } }
    }
}
