import CoreFoundation

extension String {
    init(_ string: CFString) {
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
}

extension CFString {
    static func make(_ string: String) -> CFString {
        var string = string
        let made = string.withUTF8 { bytes in
            CFStringCreateWithBytes(nil, bytes.baseAddress, bytes.count, CFStringBuiltInEncodings.UTF8.rawValue, false)
        }
        guard let made else { preconditionFailure("no memory is left for a CFString") }
        return made
    }
}

extension [UInt8] {
    init(_ data: CFData) { self.init(UnsafeBufferPointer(start: CFDataGetBytePtr(data), count: CFDataGetLength(data))) }
}

extension CFData {
    static func make(_ bytes: [UInt8]) -> CFData {
        guard let made = CFDataCreate(nil, bytes, bytes.count) else {
            preconditionFailure("no memory is left for a CFData")
        }
        return made
    }
}
