@testable import Ports

/// Numbers that look random, and are the same in each run.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

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
        _ kind: Wire.Kind = .message, reply: [UInt8] = [], components: [(bytes: [UInt8], isPort: Bool)] = []
    ) -> [UInt8] {
        let header = WireHeader(
            kind: kind, id: 100, request: kind == .message ? 0 : 9, count: components.count, replySize: reply.count)
        var bytes = [UInt8](repeating: 0, count: header.replyOffset)
        bytes.withUnsafeMutableBytes { bytes in
            header.write(to: bytes)
            for (index, component) in components.enumerated() {
                let size = UInt32(component.bytes.count) | (component.isPort ? Wire.portBit : 0)
                bytes.setLittle(size, at: header.sizesOffset + 4 * index)
            }
        }
        return bytes + reply + components.flatMap(\.bytes)
    }

    static let frames: [[UInt8]] = {
        let right = bytes(of: Samples.right)
        return [
            frame(), frame(components: [([], false)]), frame(components: [([1, 2, 3], false)]),
            frame(reply: right), frame(components: [(right, true)]),
            frame(
                .request, reply: right, components: [([1, 2, 3], false), (right, true), ([], false), (right, true)]),
            frame(.reply, components: [(Array(repeating: 5, count: 300), false)]),
            frame(.request, components: Array(repeating: ([9], false), count: 40)),
        ]
    }()

    static func packet(_ message: ControlMessage) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: ControlMessage.size)
        bytes.withUnsafeMutableBytes { message.write(to: $0) }
        return bytes
    }

    static func hello(_ incarnation: Incarnation = .random(), major: UInt8 = ControlHello.major) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: ControlHello.size)
        bytes.withUnsafeMutableBytes { ControlHello(incarnation: incarnation).write(to: $0) }
        bytes[4] = major
        return bytes
    }

    static let packets = [packet(.watch(1)), packet(.invalidated(.max)), packet(.unanswered(5)), hello()]

    /// A change of a sample, or anything.
    static func spoilt(_ samples: [[UInt8]], _ generator: inout SeededGenerator) -> [UInt8] {
        let choice = Int(generator.next() % 16)
        var bytes = samples[Int(generator.next() % UInt64(samples.count))]
        switch choice {
        case 0: return (0..<Int(generator.next() % 100)).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        case 1, 2: bytes.removeLast(Int(generator.next() % UInt64(bytes.count + 1)))
        case 3: bytes += samples[Int(generator.next() % UInt64(samples.count))]
        default:
            for _ in 0...generator.next() % 4 {
                let number = generator.next()
                // Extremes find more than the middle.
                let value = [UInt8(truncatingIfNeeded: number >> 40), 0, 0xff, 0x80][Int(number >> 32 & 3)]
                if !bytes.isEmpty { bytes[Int(number & 0xffff_ffff) % bytes.count] = value }
            }
        }
        return bytes
    }
}
