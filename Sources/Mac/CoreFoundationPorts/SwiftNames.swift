import CCoreFoundationPorts
import CoreFoundation

// Declarations of macOS's Swift overlay for CoreFoundation, so that a file written there compiles.

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

/// A class whose objects are made of strings: of literals, as `"com.example.server" as CFString`, or of a mode's name.
public protocol StringClass: ExpressibleByStringInterpolation
where StringLiteralType == String, StringInterpolation == DefaultStringInterpolation {}

extension StringClass {
    /// The mode of a name.
    public init(_ rawValue: CFString) { self.init(rawValue: rawValue) }

    /// The mode of a name.
    public init(rawValue: CFString) {
        guard let string = rawValue as? Self else { preconditionFailure("only a CFString is made of a string") }
        self = string
    }

    /// Makes the string of a literal, also with other values in it.
    public init(stringLiteral value: String) { self.init(rawValue: value.cfString) }
}

extension CFString: StringClass, @retroactive ExpressibleByStringInterpolation,
    @retroactive ExpressibleByStringLiteral, @retroactive ExpressibleByExtendedGraphemeClusterLiteral,
    @retroactive ExpressibleByUnicodeScalarLiteral
{}

/// An object of CoreFoundation's, equal by `CFEqual`.
public protocol EquatableByCFEqual: AnyObject, Hashable {}

extension EquatableByCFEqual {
    /// Whether `CFEqual` says so.
    public static func == (left: Self, right: Self) -> Bool { CFEqual(left, right) }

    /// Hashes what `CFHash` returns.
    public func hash(into hasher: inout Hasher) { hasher.combine(CFHash(self)) }
}

extension CFString: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFData: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFMessagePort: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFMachPort: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFFileDescriptor: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFNotificationCenter: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFRunLoop: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFRunLoopSource: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFRunLoopTimer: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}
extension CFRunLoopObserver: EquatableByCFEqual, @retroactive Hashable, @retroactive Equatable {}

// Any thread may use these objects: CoreFoundation's run loops and their items have locks, and so has a CFMessagePort. A
// CFString or a CFData is left out, because it may be a mutable one.
extension CFMessagePort: @retroactive @unchecked Sendable {}
extension CFRunLoop: @retroactive @unchecked Sendable {}
extension CFRunLoopSource: @retroactive @unchecked Sendable {}
extension CFRunLoopTimer: @retroactive @unchecked Sendable {}
extension CFRunLoopObserver: @retroactive @unchecked Sendable {}
