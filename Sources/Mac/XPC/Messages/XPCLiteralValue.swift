/// A value in a literal of an ``XPCDictionary``.
///
///     import XPC
///
///     let message: XPCDictionary = ["name": "report", "pages": 12, "isFinal": true, "scale": 1.5]
///
/// Values without a literal are converted with an initializer.
public struct XPCLiteralValue: Sendable, Hashable {
    let value: XPCValue

    /// Makes a value of a string.
    public init(_ string: String) { value = .string(string) }
    /// Makes a value of a Boolean value.
    public init(_ bool: Bool) { value = .bool(bool) }
    /// Makes a value of a signed integer, which must fit in an Int64.
    public init<Number: SignedInteger>(_ number: Number) { value = XPCValue(signed: number) }
    /// Makes a value of an unsigned integer, which must fit in a UInt64.
    public init<Number: UnsignedInteger>(_ number: Number) { value = XPCValue(unsigned: number) }
    /// Makes a value of a floating number, which is stored as a Double.
    public init<Number: BinaryFloatingPoint>(_ number: Number) { value = XPCValue(floating: number) }
    /// Makes a value of a dictionary.
    public init(_ dictionary: XPCDictionary) { value = .dictionary(dictionary.values) }
    /// Makes a value of an array. Not in Apple's module.
    public init(_ array: XPCArray) { value = .array(array.values) }
    /// Makes a value of the endpoint of a listener.
    public init(_ endpoint: XPCEndpoint) { value = .endpoint(endpoint) }
    /// Makes a value of bytes. Not in Apple's module.
    public init(_ bytes: [UInt8]) { value = .bytes(bytes) }
}

extension XPCLiteralValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral
{
    /// Makes a value of a string.
    public init(stringLiteral value: String) { self.init(value) }
    /// Makes a value of a Boolean value.
    public init(booleanLiteral value: Bool) { self.init(value) }
    /// Makes a value of a signed integer.
    public init(integerLiteral value: Int64) { self.init(value) }
    /// Makes a value of a floating number.
    public init(floatLiteral value: Double) { self.init(value) }
}

extension XPCDictionary: ExpressibleByDictionaryLiteral {
    /// Makes a dictionary of keys and values. Of a key that comes twice, the last counts.
    public init(dictionaryLiteral elements: (String, XPCLiteralValue)...) {
        self.init(Dictionary(elements.map { ($0, $1.value) }) { $1 })
    }
}
