import FoundationEssentials
import Ports

/// Encodes values as JSON, which people and other languages read. ``CBORCoder`` is faster, and its messages are smaller.
public struct JSONCoder: MessageCoder {
    /// The deepest nesting of arrays and objects that is decoded.
    public let depthLimit: Int

    /// Makes a coder with a depth limit of 64.
    public init() { depthLimit = 64 }

    /// Makes a coder that decodes so many arrays and objects inside one another: at most 512, as each takes
    /// room on the stack.
    /// - Throws: `PortError.invalidLimit` for a negative limit, or more than 512.
    public init(depthLimit: Int) throws(PortError) {
        try PortError.check("depthLimit", depthLimit, in: 0...512)
        self.depthLimit = depthLimit
    }

    /// Appends the value as JSON.
    public func encode<Value: Encodable>(
        _ value: Value, into bytes: inout [UInt8], attachments: inout Attachments
    ) throws {
        let encoder = JSONEncoder()
        encoder.userInfo = attachments.userInfo
        bytes += try encoder.encode(value)
    }

    /// Decodes the value that is all of these bytes.
    public func decode<Value: Decodable>(
        _ type: Value.Type, from bytes: RawSpan, attachments: Attachments
    ) throws -> Value {
        var attachments = attachments
        let decoder = JSONDecoder()
        decoder.userInfo = attachments.userInfo
        return try bytes.withUnsafeBytes { bytes in
            guard Self.depth(of: bytes) <= depthLimit else {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "more than \(depthLimit) values lie inside one another"))
            }
            return try decoder.decode(type, from: Data(bytes))
        }
    }

    /// How deep brackets outside strings are nested.
    private static func depth(of bytes: UnsafeRawBufferPointer) -> Int {
        var (depth, deepest, isInString, isEscaped) = (0, 0, false, false)
        for byte in bytes {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                deepest = max(deepest, depth)
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
        }
        return deepest
    }
}
