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
            let digits = String(bits, radix: 16)
            return String(repeating: "0", count: 32 - digits.count) + digits
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
        guard digits.utf8.count == 32, digits.utf8.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) }),
            let bits = UInt128(digits, radix: 16)
        else { return nil }
        self.bits = bits
    }
}
