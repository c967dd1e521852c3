@testable import FuzzTargets

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

extension Samples {
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
