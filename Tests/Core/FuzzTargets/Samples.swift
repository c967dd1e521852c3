@testable import Ports

/// Good input of each kind that comes from other processes, to be spoilt.
enum Samples {
    static let right = WireRight(
        id: PortID(incarnation: Incarnation(bits: 0x0123_4567_89ab_cdef_0011_2233_4455_6677), number: 7),
        queueLimit: 77, limit: 1 << 33, path: "/run/ports")

    static func bytes(of right: WireRight) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: right.size)
        bytes.withUnsafeMutableBytes { right.write(to: $0) }
        return bytes
    }

    static func frame(
        _ kind: Wire.Kind = .message, id: UInt32 = 100, request: UInt64 = 9, reply: [UInt8] = [],
        components: [(bytes: [UInt8], isPort: Bool)] = [], origin: UInt32 = 0, rightsBit: UInt32 = 0
    ) -> [UInt8] {
        let header = FrameHeader(
            kind: kind, id: id, request: request, count: components.count, replySize: reply.count, origin: origin)
        var bytes = [UInt8](repeating: 0, count: header.replyOffset)
        bytes.withUnsafeMutableBytes { bytes in
            header.write(to: bytes)
            for (index, component) in components.enumerated() {
                let size = UInt32(component.bytes.count) | (component.isPort ? Wire.portBit | rightsBit : 0)
                bytes.setLittle(size, at: header.sizesOffset + 4 * index)
            }
        }
        return bytes + reply + components.flatMap(\.bytes)
    }

    /// A message of some bytes and a number of descriptors.
    static func frame(
        _ kind: Wire.Kind = .message, descriptors count: Int, socket: UInt64 = 5, packet: UInt64 = 6
    ) -> [UInt8] {
        let header = FrameHeader(kind: kind, id: 100, count: count + 1, descriptorCount: count)
        var bytes = [UInt8](repeating: 0, count: header.componentsOffset + 1 + header.descriptorTokenSize)
        bytes.withUnsafeMutableBytes { bytes in
            header.write(to: bytes)
            bytes.setLittle(1 as UInt32, at: header.sizesOffset)
            for index in 1..<count + 1 { bytes.setLittle(Wire.portBit, at: header.sizesOffset + 4 * index) }
            bytes.setLittle(socket, at: bytes.count - 16)
            bytes.setLittle(packet, at: bytes.count - 8)
        }
        return bytes
    }

    static let frames: [[UInt8]] = {
        let right = bytes(of: Samples.right)
        return [
            frame(), frame(components: [([], false)]), frame(components: [([1, 2, 3], false)]),
            frame(reply: right), frame(components: [(right, true)]),
            frame(
                .request, reply: right, components: [([1, 2, 3], false), (right, true), ([], false), (right, true)]),
            frame(.reply, components: [(Array(repeating: 5, count: 300), false)]),
            frame(.request, components: Array(repeating: ([9], false), count: 40)), frame(.drainProbe, id: 0),
            frame(reply: right, components: [([1], false), (right, true)], rightsBit: Wire.receiveBit),
            frame(origin: 0x8765_4321), frame(descriptors: 1), frame(.request, descriptors: 64),

        ]
    }()

    static func packet(_ message: ControlMessage) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: ControlMessage.largestSize)
        let size = bytes.withUnsafeMutableBytes { message.write(to: $0) }
        return Array(bytes[..<size])
    }

    static func hello(_ incarnation: Incarnation = .random(), version: UInt8 = ControlHello.version) -> [UInt8] {
        bytes(of: ControlHello(version: version, incarnation: incarnation))
    }

    static func bytes(of hello: ControlHello) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: ControlHello.size)
        bytes.withUnsafeMutableBytes { hello.write(to: $0) }
        return bytes
    }

    static let packets =
        [
            .watch(1), .invalidated(.max), .unanswered(5), .credit(1, bytes: .max), .count(2), .sent(3, count: 4),
            .wantsRing(1, question: 2), .ring(2, question: 3), .noRing(3, question: 4), .ringClosed(4, question: 5),
            .zeroMQ(5, isOpen: true),
            .wantsDescriptorSocket(6, question: 7), .descriptorSocket(7, question: 8),
            .noDescriptorSocket(8, question: 9), .descriptorSocketClosed(9, question: 10),
            .moving(11), .stayed(12), .requestMoved(13, request: 14), .hasRequest(14, request: 15),
            .requestIsHere(15, request: 16),
            .drained(1, probe: .max), .probed(2),
            .refused(3), .cancelled(4), .named(5, "com.example.echo"), .failed(6, reason: "it was ended"),
            .question(QuestionPacket(number: 5, answers: right, question: [1, 2, 3])),
        ].map(packet) + [hello()]

    static let entries: [[UInt8]] =
        ["x", "com.example.echo", "é/%\n", String(repeating: "日", count: 85)].map {
            NameEntry(name: $0, right: right).bytes
        } + [Array("ports-name 2\nwhatever else\n".utf8)]
}
