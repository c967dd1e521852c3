/// The JSON of a value, as its coding says: with null for nil, and with milliseconds for a duration.
func json(_ value: some Encodable) -> String {
    switch value {
    case let text as String: return quoted(text)
    case let flag as Bool: return "\(flag)"
    case let number as Double: return number.isFinite ? "\(number)" : "null"
    case let number as any FixedWidthInteger: return "\(number)"
    case let duration as Duration: return milliseconds(duration)
    default:
        let encoder = JSONEncoder()
        // No container throws.
        try? value.encode(to: encoder)
        return encoder.text
    }
}

/// Writes a value as a line of JSON.
func print(json value: some Encodable) { print(json(value)) }

private func quoted(_ text: String) -> String {
    text.unicodeScalars.reduce(into: "\"") { quoted, scalar in
        switch scalar {
        case "\"": quoted += "\\\""
        case "\\": quoted += "\\\\"
        case "\n": quoted += "\\n"
        // Also the controls of eight bits, because a terminal obeys them.
        case _ where scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value):
            quoted += "\\u" + padded(Int(scalar.value), radix: 16, to: 4)
        default: quoted.unicodeScalars.append(scalar)
        }
    } + "\""
}

/// Makes JSON of a value whose containers do not nest: a nested value is a type of its own. Foundation's encoder would leave
/// nil out, write a duration as an array of two numbers, lose the order of the members, throw for `.nan`, and let controls
/// through that a terminal obeys.
private final class JSONEncoder: Encoder, SingleValueEncodingContainer {
    private var single = "null"
    private var members: [String]?
    private(set) var elements: [String]?
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    var text: String {
        if let members { return "{" + members.joined(separator: ",") + "}" }
        return elements.map { "[" + $0.joined(separator: ",") + "]" } ?? single
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        members = members ?? []
        return KeyedEncodingContainer(JSONMembers(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        elements = []
        return JSONElements(encoder: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }
    func encodeNil() {}
    func encode<Value: Encodable>(_ value: Value) { single = json(value) }

    func add(_ member: String, _ key: any CodingKey) { members?.append(quoted(key.stringValue) + ":" + member) }
    func add(_ element: String) { elements?.append(element) }

    static func nested() -> Never { preconditionFailure("no value of portctl nests its containers") }
}

private struct JSONMembers<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: JSONEncoder
    var codingPath: [any CodingKey] { [] }

    func encodeNil(forKey key: Key) { encoder.add("null", key) }
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) { encoder.add(json(value), key) }

    func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) { add(value, key) }

    // Without these, the standard library's own forms would leave a nil out.
    func encodeIfPresent(_ value: Bool?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: String?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: Double?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: Float?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: Int?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: Int8?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: Int16?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: Int32?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: Int64?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: UInt?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: UInt8?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: UInt16?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: UInt32?, forKey key: Key) { add(value, key) }
    func encodeIfPresent(_ value: UInt64?, forKey key: Key) { add(value, key) }

    private func add<Value: Encodable>(_ value: Value?, _ key: Key) {
        encoder.add(value.map { json($0) } ?? "null", key)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> { JSONEncoder.nested() }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { JSONEncoder.nested() }
    func superEncoder() -> any Encoder { JSONEncoder.nested() }
    func superEncoder(forKey key: Key) -> any Encoder { JSONEncoder.nested() }
}

private struct JSONElements: UnkeyedEncodingContainer {
    let encoder: JSONEncoder
    var codingPath: [any CodingKey] { [] }
    var count: Int { encoder.elements?.count ?? 0 }

    func encodeNil() { encoder.add("null") }
    func encode<Value: Encodable>(_ value: Value) { encoder.add(json(value)) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        JSONEncoder.nested()
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { JSONEncoder.nested() }
    func superEncoder() -> any Encoder { JSONEncoder.nested() }
}
