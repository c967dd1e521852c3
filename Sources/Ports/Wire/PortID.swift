import Glibc

/// Which run of which process: 128 random bits, drawn once a process, so that no two are ever taken for each other.
struct Incarnation: Hashable, Sendable, CustomStringConvertible {
    let bits: UInt128

    static func random() -> Incarnation {
        var generator = SystemRandomNumberGenerator()
        return Incarnation(bits: UInt128(generator.next()) << 64 | UInt128(generator.next()))
    }

    /// 32 hexadecimal digits.
    var description: String {
        let digits = String(bits, radix: 16)
        return String(repeating: "0", count: 32 - digits.count) + digits
    }
}

extension Incarnation {
    /// Takes the 32 digits of ``description``, and nothing else.
    init?(_ digits: some StringProtocol) {
        guard digits.utf8.count == 32, digits.utf8.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) }),
            let bits = UInt128(digits, radix: 16)
        else { return nil }
        self.bits = bits
    }
}

/// What a port is known by, everywhere and for ever: its process's incarnation, and a number that is not used again.
struct PortID: Hashable, Sendable, CustomStringConvertible {
    let incarnation: Incarnation
    let number: UInt64

    var description: String { "port \(number) of process \(String(incarnation.description.prefix(8)))" }
}
