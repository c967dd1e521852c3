/// The identity of a port, which is unique everywhere and for ever: the owner's incarnation, and a number that is never
/// reused.
public struct PortID: Hashable, Sendable, CustomStringConvertible {
    /// The incarnation of the owner's process.
    public let incarnation: Incarnation
    /// The port's number in that incarnation.
    public let number: UInt64

    /// The port's number, and the first digits of its owner's incarnation.
    public var description: String { "port \(number) of \(incarnation.shortDescription)" }

    /// 128 random bits that name one life of a process, or of a runtime in it.
    public struct Incarnation: Hashable, Sendable, CustomStringConvertible {
        let bits: UInt128

        static func random() -> Incarnation { Incarnation(bits: .random(in: 0 ... .max)) }

        /// 32 hexadecimal digits.
        public var description: String {
            String(unsafeUninitializedCapacity: 32) { text in
                for place in 0..<32 {
                    text[place] = Hexadecimal.digit(UInt8(truncatingIfNeeded: bits >> (124 - 4 * place)) & 15)
                }
                return 32
            }
        }

        /// The text for a process of which only the incarnation is known.
        var shortDescription: String { "process \(description.prefix(8))" }
    }
}

/// ``PortID/Incarnation``, by its short name within this package.
package typealias Incarnation = PortID.Incarnation

extension Incarnation {
    /// Reads the 32 digits of ``description``, and nothing else.
    init?(_ digits: some StringProtocol) {
        guard digits.utf8.count == 32 else { return nil }
        var bits: UInt128 = 0
        for digit in digits.utf8 {
            guard let value = Hexadecimal.value(digit) else { return nil }
            bits = bits << 4 | UInt128(value)
        }
        self.bits = bits
    }
}

/// Hexadecimal digits, of which the letters are small. The standard library's conversion of a number to text would take most
/// of the time of a list of all names.
enum Hexadecimal {
    /// - Parameter value: Less than 16.
    static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? value + UInt8(ascii: "0") : value - 10 + UInt8(ascii: "a")
    }

    /// Nil for a byte that is no digit.
    static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
