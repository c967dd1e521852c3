import CoreFoundation
import Foundation

// Where macOS has `as`: the compiler on Linux knows no bridge to CoreFoundation's types.

extension Data {
    /// A copy of a CFData.
    public init(_ data: CFData) { self.init([UInt8](data)) }

    /// The bytes as a CFData.
    public var cfData: CFData { Array(self).cfData }
}
