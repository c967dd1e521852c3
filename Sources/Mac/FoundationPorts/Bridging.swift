import CoreFoundation
import Foundation

/// Lets `Data` take all bytes of an `NSData` at once. Without that, Foundation asks for each byte by itself, which costs
/// a message of a kilobyte 0.14 ms at each `as? Data`.
extension NSData: @retroactive ContiguousBytes {
    /// Calls the body with the bytes.
    public func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        let count = length
        return try withExtendedLifetime(self) {
            try body(UnsafeRawBufferPointer(start: count == 0 ? nil : bytes, count: count))
        }
    }
}

// Where macOS has `as`: the compiler on Linux knows no bridge to CoreFoundation's types.

extension Data {
    /// A copy of a CFData.
    public init(_ data: CFData) { self.init([UInt8](data)) }

    /// A copy as a CFData: on macOS, `as CFData`.
    public var cfData: CFData { Array(self).cfData }
}

extension Data? {
    /// A copy as a CFData: on macOS, `as CFData?`.
    public var cfData: CFData? { map(\.cfData) }
}

extension NSData {
    /// A copy as a CFData: on macOS, `as CFData`.
    public var cfData: CFData { Data(self).cfData }
}

extension NSString {
    /// A copy as a CFString: on macOS, `as CFString`.
    public var cfString: CFString { String(self).cfString }
}

extension CFData {
    /// A copy as `Data`: on macOS, `as Data`.
    public var data: Data { Data(self) }
}
