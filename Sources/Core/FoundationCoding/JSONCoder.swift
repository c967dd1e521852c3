import FoundationEssentials
import Ports
import TypedPorts

/// Encodes values as JSON, which people and other languages read. `CBORCoder` is faster, and its messages are smaller.
///
/// Values become UTF-8. Texts in UTF-8, UTF-16 and UTF-32 are decoded, with a byte order mark or without.
public struct JSONCoder: MessageCoder {
    /// The deepest nesting of arrays and objects that is decoded.
    public let depthLimit: Int

    /// Makes a coder with a depth limit of 64.
    public init() { depthLimit = 64 }

    /// Makes a coder with another depth limit: at most 512, because each array or object takes room on the stack.
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
            let text = try Self.utf8(bytes)
            guard text.withUnsafeBytes(Self.depth) <= depthLimit else {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "more than \(depthLimit) values lie inside one another"))
            }
            return try decoder.decode(type, from: text)
        }
    }

    /// The text as UTF-8. JSONDecoder reads UTF-16 and UTF-32 as well, where brackets are hard to count.
    private static func utf8(_ bytes: UnsafeRawBufferPointer) throws -> Data {
        let first = (0..<4).map { $0 < bytes.count ? bytes[$0] : 1 }
        // A text begins with ASCII or a byte order mark, and no byte of a text in UTF-8 is 0.
        let text: String?
        switch (first[0], first[1], first[2], first[3]) {
        case (0, 0, 0xFE, 0xFF), (0, 0, 0, _): text = Self.text(of: bytes, UTF32.self) { $0.bigEndian }
        case (0xFF, 0xFE, 0, 0), (_, 0, 0, 0): text = Self.text(of: bytes, UTF32.self) { $0.littleEndian }
        case (0xFE, 0xFF, _, _), (0, _, _, _): text = Self.text(of: bytes, UTF16.self) { $0.bigEndian }
        case (0xFF, 0xFE, _, _), (_, 0, _, _): text = Self.text(of: bytes, UTF16.self) { $0.littleEndian }
        default: return Data(bytes)
        }
        if let text { return Data(text.utf8) }
        throw DecodingError.dataCorrupted(
            .init(codingPath: [], debugDescription: "the bytes are no text in UTF-8, UTF-16 or UTF-32"))
    }

    private static func text<Encoding: Unicode.Encoding>(
        of bytes: UnsafeRawBufferPointer, _: Encoding.Type, _ unit: (Encoding.CodeUnit) -> Encoding.CodeUnit
    ) -> String? where Encoding.CodeUnit: BitwiseCopyable {
        let size = MemoryLayout<Encoding.CodeUnit>.size
        guard bytes.count.isMultiple(of: size) else { return nil }
        let units = stride(from: 0, to: bytes.count, by: size).map {
            unit(bytes.loadUnaligned(fromByteOffset: $0, as: Encoding.CodeUnit.self))
        }
        return String(validating: units, as: Encoding.self)
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
