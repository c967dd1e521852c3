import Glibc

/// Numbers that look random, and that a seed determines: the same ones in each run.
package struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    /// Begins with the seed's numbers.
    package init(seed: UInt64) { state = seed }

    /// The next number.
    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// A seed that chance gives, written to the standard output. `SEED` in the environment gives that one again.
package func drawnSeed(_ file: String = #fileID, _ line: Int = #line) -> UInt64 {
    let seed = getenv("SEED").flatMap { UInt64(String(cString: $0)) } ?? .random(in: 0 ... .max)
    print("\(file):\(line) has the seed \(seed)")
    return seed
}
