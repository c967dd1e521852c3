import Ports

extension XPCDictionary {
    // MARK: Values

    /// The value of a key as a dictionary; nil when it is none.
    public subscript(key: String) -> XPCDictionary? {
        get { values[key]?.dictionary }
        set { values[key] = newValue.map { .dictionary($0.values) } }
    }

    /// The value of a key as an array; nil when it is none.
    public subscript(key: String) -> XPCArray? {
        get { values[key]?.array }
        set { values[key] = newValue.map { .array($0.values) } }
    }

    /// The value of a key as a string; nil when it is none.
    public subscript(key: String) -> String? {
        get { values[key]?.string }
        set { values[key] = newValue.map { .string($0) } }
    }

    /// The value of a key as a Boolean value; nil when it is none.
    public subscript(key: String) -> Bool? {
        get { values[key]?.bool }
        set { values[key] = newValue.map { .bool($0) } }
    }

    /// The value of a key as the endpoint of a listener; nil when it is none.
    public subscript(key: String) -> XPCEndpoint? {
        get { values[key]?.endpoint }
        set { values[key] = newValue.map { .endpoint($0) } }
    }

    /// The value of a key as bytes; nil when it is none. Not in Apple's module, whose dictionaries have bytes as C objects.
    public subscript(key: String) -> [UInt8]? {
        get { values[key]?.bytes }
        set { values[key] = newValue.map { .bytes($0) } }
    }

    /// The value of a key as a file descriptor, which the send takes out of its object; nil when it is none. Apple's module has `FileDescriptor` here.
    public subscript(key: String) -> MessageDescriptor? {
        get { values[key]?.descriptor }
        set { values[key] = newValue.map { .descriptor($0) } }
    }

    /// The value of a key as a UUID; nil when it is none. `UUID(uuid:)` and `uuid` of Foundation convert.
    public subscript(key: String) -> UUIDBytes? {
        get { values[key]?.uuid }
        set { values[key] = newValue.map { XPCValue(uuid: $0) } }
    }

    // MARK: Numbers

    /// The number of a key as a signed integer; nil when it is none, or does not fit. A new number must fit in an Int64.
    public subscript<Number: SignedInteger>(key: String) -> Number? {
        get { values[key]?.integer(Number.self) }
        set { values[key] = newValue.map { XPCValue(signed: $0) } }
    }

    /// The number of a key as an unsigned integer; nil when it is none, or does not fit. A new number must fit in a UInt64.
    public subscript<Number: UnsignedInteger>(key: String) -> Number? {
        get { values[key]?.integer(Number.self) }
        set { values[key] = newValue.map { XPCValue(unsigned: $0) } }
    }

    /// The number of a key as a floating number; nil when it is none, or does not fit. A new number is stored as a Double.
    public subscript<Number: BinaryFloatingPoint>(key: String) -> Number? {
        get { values[key]?.floating(Number.self) }
        set { values[key] = newValue.map { XPCValue(floating: $0) } }
    }

    // MARK: Types and defaults

    /// The value of a key as a dictionary; nil when it is none.
    public subscript(key: String, as type: XPCDictionary.Type) -> XPCDictionary? { values[key]?.dictionary }

    /// The value of a key as an array; nil when it is none.
    public subscript(key: String, as type: XPCArray.Type) -> XPCArray? { values[key]?.array }

    /// The value of a key as a string; nil when it is none.
    public subscript(key: String, as type: String.Type) -> String? { values[key]?.string }

    /// The value of a key as a Boolean value; nil when it is none.
    public subscript(key: String, as type: Bool.Type) -> Bool? { values[key]?.bool }

    /// The value of a key as the endpoint of a listener; nil when it is none.
    public subscript(key: String, as type: XPCEndpoint.Type) -> XPCEndpoint? { values[key]?.endpoint }

    /// The value of a key as a UUID; nil when it is none.
    public subscript(key: String, as type: UUIDBytes.Type) -> UUIDBytes? { values[key]?.uuid }

    /// The number of a key as an integer; nil when it is none, or does not fit.
    public subscript<Number: BinaryInteger>(key: String, as type: Number.Type) -> Number? {
        values[key]?.integer(type)
    }

    /// The number of a key as a floating number; nil when it is none.
    public subscript<Number: BinaryFloatingPoint>(key: String, as type: Number.Type) -> Number? {
        values[key]?.floating(type)
    }

    /// The value of a key as a Boolean value, else the default.
    public subscript(
        key: String, as type: Bool.Type = Bool.self, default defaultValue: @autoclosure () -> Bool
    ) -> Bool { values[key]?.bool ?? defaultValue() }

    /// The value of a key as a string, else the default.
    public subscript(
        key: String, as type: String.Type = String.self, default defaultValue: @autoclosure () -> String
    ) -> String { values[key]?.string ?? defaultValue() }

    /// The number of a key as an integer, else the default.
    public subscript<Number: BinaryInteger>(
        key: String, as type: Number.Type = Number.self, default defaultValue: @autoclosure () -> Number
    ) -> Number { values[key]?.integer(type) ?? defaultValue() }

    /// The number of a key as a floating number, else the default.
    public subscript<Number: BinaryFloatingPoint>(
        key: String, as type: Number.Type = Number.self, default defaultValue: @autoclosure () -> Number
    ) -> Number { values[key]?.floating(type) ?? defaultValue() }

    /// The value of a key as an array, else the default.
    public subscript(
        key: String, as type: XPCArray.Type = XPCArray.self, default defaultValue: @autoclosure () -> XPCArray
    ) -> XPCArray { values[key]?.array ?? defaultValue() }

    /// The value of a key as a UUID, else the default.
    public subscript(
        key: String, as type: UUIDBytes.Type = UUIDBytes.self, default defaultValue: @autoclosure () -> UUIDBytes
    ) -> UUIDBytes { values[key]?.uuid ?? defaultValue() }

    /// The value of a key as the endpoint of a listener, else the default.
    public subscript(
        key: String, as type: XPCEndpoint.Type = XPCEndpoint.self, default defaultValue: @autoclosure () -> XPCEndpoint
    ) -> XPCEndpoint { values[key]?.endpoint ?? defaultValue() }
}
