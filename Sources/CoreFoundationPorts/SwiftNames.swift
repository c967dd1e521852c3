import CoreFoundation

// What the overlay of macOS adds to CoreFoundation for Swift, so that a file written there compiles.

extension CFRunLoopMode {
    /// The mode of a run that names no other: `kCFRunLoopDefaultMode`.
    public static var defaultMode: CFRunLoopMode! { kCFRunLoopDefaultMode }

    /// The set of common modes: `kCFRunLoopCommonModes`.
    public static var commonModes: CFRunLoopMode! { kCFRunLoopCommonModes }

    /// The mode's name, for `CFMessagePortSendRequest`. Here, a mode is its name.
    public var rawValue: CFString { self }
}

/// The type of the flags that CoreFoundation's functions set.
public typealias DarwinBoolean = Bool

extension Bool {
    /// The value itself.
    public var boolValue: Bool { self }
}

/// What is made of a string: a literal, as `"com.example.server" as CFString`, or the name of a mode.
public protocol StringClass: ExpressibleByStringLiteral {}

extension StringClass {
    /// The mode of a name.
    public init(_ rawValue: CFString) { self.init(rawValue: rawValue) }

    /// The mode of a name.
    public init(rawValue: CFString) {
        guard let string = rawValue as? Self else { preconditionFailure("only a CFString is made of a CFString") }
        self = string
    }

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

extension CFString: StringClass, @retroactive ExpressibleByStringLiteral,
    @retroactive ExpressibleByExtendedGraphemeClusterLiteral, @retroactive ExpressibleByUnicodeScalarLiteral
{}
