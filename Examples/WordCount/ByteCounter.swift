/// Counts a stream of bytes piece by piece, as GNU `wc` does in the C locale.
///
/// Only a visible ASCII character begins a word, and only white space ends it. All other bytes, control characters
/// and those above ASCII, do neither: a run of them alone is no word, and inside a word they do not split it.
struct ByteCounter {
    private(set) var counts = Counts()
    /// 1 if the bytes so far ended inside a word, which the next piece may continue, else 0.
    private var inWord = 0

    /// Computes with bits instead of branching, so that the speed does not depend on the bytes.
    mutating func consume(_ bytes: UnsafeRawBufferPointer) {
        var lines = 0
        var words = 0
        var inWord = self.inWord
        Self.traits.withUnsafeBufferPointer { traits in
            for byte in bytes {
                let trait = Int(traits[Int(byte)])
                lines &+= trait >> 2
                words &+= trait & ~inWord & 1
                inWord = (trait | (inWord & trait >> 1)) & 1
            }
        }
        self.inWord = inWord
        counts += Counts(lines: UInt64(lines), words: UInt64(words), bytes: UInt64(bytes.count))
    }

    /// For each byte: in bit 0 whether it begins a word, in bit 1 whether it leaves one going, in bit 2 whether it
    /// ends a line.
    private static let traits: [UInt8] = (UInt8.min...UInt8.max).map { byte in
        switch byte {
        case 0x0a: 0b100
        case 0x09...0x0d, 0x20: 0b000
        case 0x21...0x7e: 0b011
        default: 0b010
        }
    }
}
