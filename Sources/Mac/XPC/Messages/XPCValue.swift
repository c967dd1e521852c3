import Ports
import TypedPorts

/// The bytes of a UUID: Foundation's `uuid_t`.
public typealias UUIDBytes = (
    UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8
)

/// A value of a dictionary or an array.
indirect enum XPCValue: Sendable, Hashable {
    case bool(Bool)
    case signed(Int64)
    case unsigned(UInt64)
    case floating(Double)
    case string(String)
    case bytes([UInt8])
    case array([XPCValue])
    case dictionary([String: XPCValue])
    case descriptor(MessageDescriptor)
    case endpoint(XPCEndpoint)
    /// The sixteen bytes of a UUID.
    case uuid([UInt8])

    init<Number: SignedInteger>(signed number: Number) { self = .signed(Int64(number)) }
    init<Number: UnsignedInteger>(unsigned number: Number) { self = .unsigned(UInt64(number)) }
    init<Number: BinaryFloatingPoint>(floating number: Number) { self = .floating(Double(number)) }
    init(uuid: UUIDBytes) { self = .uuid(withUnsafeBytes(of: uuid) { Array($0) }) }

    // MARK: Reading

    var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    var string: String? { if case .string(let value) = self { value } else { nil } }
    var bytes: [UInt8]? { if case .bytes(let value) = self { value } else { nil } }
    var descriptor: MessageDescriptor? { if case .descriptor(let value) = self { value } else { nil } }
    var endpoint: XPCEndpoint? { if case .endpoint(let value) = self { value } else { nil } }
    var uuid: UUIDBytes? {
        guard case .uuid(let bytes) = self, bytes.count == MemoryLayout<UUIDBytes>.size else { return nil }
        return bytes.withUnsafeBytes { $0.loadUnaligned(as: UUIDBytes.self) }
    }

    /// The number, if the type has it exactly.
    func integer<Number: BinaryInteger>(_ type: Number.Type) -> Number? {
        switch self {
        case .signed(let value): Number(exactly: value)
        case .unsigned(let value): Number(exactly: value)
        case .floating(let value): Number(exactly: value)
        default: nil
        }
    }

    /// The number, if the type has it exactly.
    func floating<Number: BinaryFloatingPoint>(_ type: Number.Type) -> Number? {
        switch self {
        case .signed(let value): Number(exactly: value)
        case .unsigned(let value): Number(exactly: value)
        // The stored number has the width of a Double.
        case .floating(let value): Number(value)
        default: nil
        }
    }
}

extension XPCValue: CustomStringConvertible {
    var description: String {
        switch self {
        case .bool(let value): "\(value)"
        case .signed(let value): "\(value)"
        case .unsigned(let value): "\(value)"
        case .floating(let value): "\(value)"
        case .string(let value): value.debugDescription
        case .bytes(let value): "\(value.count) bytes"
        case .array(let value): "\(value)"
        case .dictionary(let value): value.sortedDescription
        case .descriptor(let value): "\(value)"
        case .endpoint(let value): "\(value)"
        case .uuid(let value):
            "UUID " + value.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        }
    }
}

extension [String: XPCValue] {
    /// The keys and values in the order of the keys.
    var sortedDescription: String {
        let pairs = sorted { $0.key < $1.key }.map { "\($0.key.debugDescription): \($0.value)" }
        return pairs.isEmpty ? "[:]" : "[" + pairs.joined(separator: ", ") + "]"
    }
}

extension XPCValue: Codable {
    private enum Kind: UInt8, Codable {
        case bool, signed, unsigned, floating, string, bytes, array, dictionary, descriptor, endpoint, uuid
    }

    /// Encodes the kind and the value.
    func encode(to encoder: any Encoder) throws {
        var container = encoder.unkeyedContainer()
        func add(_ kind: Kind, _ value: some Encodable) throws {
            try container.encode(kind)
            try container.encode(value)
        }
        switch self {
        case .bool(let value): try add(.bool, value)
        case .signed(let value): try add(.signed, value)
        case .unsigned(let value): try add(.unsigned, value)
        case .floating(let value): try add(.floating, value)
        case .string(let value): try add(.string, value)
        case .bytes(let value): try add(.bytes, value)
        case .array(let value): try add(.array, value)
        case .dictionary(let value): try add(.dictionary, value)
        case .descriptor(let value): try add(.descriptor, value)
        case .endpoint(let value): try add(.endpoint, value)
        case .uuid(let value): try add(.uuid, value)
        }
    }

    /// Decodes the kind and the value.
    init(from decoder: any Decoder) throws {
        var container = try decoder.unkeyedContainer()
        switch try container.decode(Kind.self) {
        case .bool: self = .bool(try container.decode(Bool.self))
        case .signed: self = .signed(try container.decode(Int64.self))
        case .unsigned: self = .unsigned(try container.decode(UInt64.self))
        case .floating: self = .floating(try container.decode(Double.self))
        case .string: self = .string(try container.decode(String.self))
        case .bytes: self = .bytes(try container.decode([UInt8].self))
        case .array: self = .array(try container.decode([XPCValue].self))
        case .dictionary: self = .dictionary(try container.decode([String: XPCValue].self))
        case .descriptor: self = .descriptor(try container.decode(MessageDescriptor.self))
        case .endpoint: self = .endpoint(try container.decode(XPCEndpoint.self))
        case .uuid: self = .uuid(try container.decode([UInt8].self))
        }
    }
}
