import TestSupport

@testable import FuzzTargets

extension Samples {
    /// A change of a sample, or anything.
    static func spoilt(_ samples: [[UInt8]], _ generator: inout SplitMix64) -> [UInt8] {
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
