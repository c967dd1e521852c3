import CoreFoundation

// Where macOS has `as`: the compiler on Linux knows no bridge to CoreFoundation's types.

extension String {
    /// A copy of a CFString.
    public init(_ string: CFString) {
        let range = CFRange(location: 0, length: CFStringGetLength(string))
        let utf8 = CFStringBuiltInEncodings.UTF8.rawValue
        var count = 0
        CFStringGetBytes(string, range, utf8, UInt8(ascii: "?"), false, nil, 0, &count)
        self.init(unsafeUninitializedCapacity: count) { bytes in
            var written = 0
            CFStringGetBytes(string, range, utf8, UInt8(ascii: "?"), false, bytes.baseAddress, bytes.count, &written)
            return written
        }
    }

    /// A copy as a CFString: on macOS, `as CFString`.
    public var cfString: CFString {
        var string = self
        let made = string.withUTF8 { bytes in
            CFStringCreateWithBytes(nil, bytes.baseAddress, bytes.count, CFStringBuiltInEncodings.UTF8.rawValue, false)
        }
        guard let made else { preconditionFailure("no memory is left for a CFString") }
        return made
    }
}

extension String? {
    /// A copy as a CFString: on macOS, `as CFString?`.
    public var cfString: CFString? { map(\.cfString) }
}

extension CFString {
    /// A copy as a string: on macOS, `as String`.
    public var string: String { String(self) }
}

extension [UInt8] {
    /// A copy of a CFData's bytes.
    public init(_ data: CFData) {
        self.init(UnsafeBufferPointer(start: CFDataGetBytePtr(data), count: CFDataGetLength(data)))
    }

    /// A copy as a CFData.
    public var cfData: CFData {
        guard let made = CFDataCreate(nil, self, count) else { preconditionFailure("no memory is left for a CFData") }
        return made
    }
}
