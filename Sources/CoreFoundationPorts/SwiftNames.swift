import CoreFoundation

// What the overlay of macOS adds to CoreFoundation for Swift, so that a file written there compiles.

extension CFRunLoopMode {
    /// The mode of a run that names no other: `kCFRunLoopDefaultMode`.
    public static var defaultMode: CFRunLoopMode { kCFRunLoopDefaultMode }

    /// The set of common modes: `kCFRunLoopCommonModes`.
    public static var commonModes: CFRunLoopMode { kCFRunLoopCommonModes }
}

/// A class whose objects string literals can be: `"com.example.server" as CFString`.
public protocol StringLiteralClass: ExpressibleByStringLiteral {}

extension StringLiteralClass {
    /// Makes the string of a literal.
    public init(stringLiteral value: StaticString) {
        let made: CFString? = value.withUTF8Buffer { bytes in
            let encoding = CFStringBuiltInEncodings.UTF8.rawValue
            return CFStringCreateWithBytes(nil, bytes.baseAddress, bytes.count, encoding, false)
        }
        guard let made, let made = made as? Self else { preconditionFailure("only a CFString is made of a literal") }
        self = made
    }
}

extension CFString: StringLiteralClass, @retroactive ExpressibleByStringLiteral,
    @retroactive ExpressibleByExtendedGraphemeClusterLiteral, @retroactive ExpressibleByUnicodeScalarLiteral
{}
