/// Values in an order, for an ``XPCDictionary``. A value, not a reference as on macOS: a copy does not change with the
/// original. The corresponding C functions are those of `xpc_array_t`.
public struct XPCArray: Sendable, Hashable {
    private(set) var values: [XPCValue]

    /// Makes an empty array.
    public init() { values = [] }

    init(_ values: [XPCValue]) { self.values = values }

    /// Whether there are no values.
    public var isEmpty: Bool { values.isEmpty }

    /// The number of values.
    public var count: Int { values.count }

    /// Appends the values to another array.
    public func copy(into destination: inout XPCArray) { destination.values += values }

    /// Nil past the last index.
    func value(at index: Int) -> XPCValue? { values.indices.contains(index) ? values[index] : nil }

    /// Replaces the value at an index. The index behind the last appends. Nil removes.
    mutating func set(_ value: XPCValue?, at index: Int) {
        precondition((0...values.count).contains(index), "the array has \(values.count) values, and no index \(index)")
        switch value {
        case let value? where index == values.count: values.append(value)
        case let value?: values[index] = value
        case nil: if index < values.count { values.remove(at: index) }
        }
    }
}

extension XPCValue {
    var array: XPCArray? { if case .array(let value) = self { XPCArray(value) } else { nil } }
}

extension XPCArray: CustomDebugStringConvertible {
    /// The values.
    public var debugDescription: String { "\(values)" }
}
