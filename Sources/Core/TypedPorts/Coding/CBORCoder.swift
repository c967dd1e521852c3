import CBOR
import Ports

/// Encodes values as CBOR (RFC 8949): compact, fast, and known in most languages.
///
/// Types with keys become maps with text keys, and other containers arrays. `[UInt8]` and what encodes itself as a
/// sequence of bytes, such as Foundation's `Data`, become byte strings. Numbers keep their type's width when they are
/// floating, and are as short as they can be when they are integers. An array of more than 23 numbers of one type, such as
/// `[Float]`, becomes a typed array (RFC 8746), which is one byte string: it is copied, not encoded number by number.
///
/// Every well-formed item is decoded: definite and indefinite lengths, all widths of numbers, integers where a type asks
/// for a floating number and the reverse, if the value stays the same. Tags are skipped, but for those of typed arrays.
/// Keys may come in any order, and unknown ones are skipped. Of a key that comes twice, the first counts.
///
/// Bytes from peers are checked before a value is decoded: an item that is malformed, too deep, or not all of the bytes
/// is a `DecodingError`. No length that the bytes state makes the decoder reserve memory.
public struct CBORCoder: MessageCoder {
    /// The deepest nesting of arrays, maps and tags that is encoded or decoded.
    public let depthLimit: Int

    /// Makes a coder with a depth limit of 64.
    public init() { depthLimit = CBOR.usualDepthLimit }

    /// Makes a coder with another depth limit: at most 512, because each array, map or tag takes room on the stack.
    /// - Throws: `PortError.invalidLimit` for a negative limit, or more than 512.
    public init(depthLimit: Int) throws(PortError) {
        try PortError.check("depthLimit", depthLimit, in: 0...512)
        self.depthLimit = depthLimit
    }

    /// Appends the value as one CBOR item.
    public func encode<Value: Encodable>(
        _ value: Value, into bytes: inout [UInt8], attachments: inout Attachments
    ) throws {
        try CBOR.encode(value, into: &bytes, depthLimit: depthLimit) { attachments.userInfo }
    }

    /// Decodes the value that is all of these bytes.
    public func decode<Value: Decodable>(
        _ type: Value.Type, from bytes: RawSpan, attachments: Attachments
    ) throws -> Value {
        var series = series(with: attachments)
        return try series.decode(type, from: bytes)
    }

    /// Codes several values that share their attachments.
    func series(with attachments: Attachments) -> CBORSeries {
        CBORSeries(depthLimit: depthLimit) {
            var attachments = attachments
            return attachments.userInfo
        }
    }
}
