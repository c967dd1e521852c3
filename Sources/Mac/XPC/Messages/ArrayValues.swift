import Ports

extension XPCArray {
    // MARK: Values

    /// The value at an index as a dictionary; nil when it is none.
    public subscript(index: Int) -> XPCDictionary? {
        get { value(at: index)?.dictionary }
        set { set(newValue.map { .dictionary($0.values) }, at: index) }
    }

    /// The value at an index as an array; nil when it is none.
    public subscript(index: Int) -> XPCArray? {
        get { value(at: index)?.array }
        set { set(newValue.map { .array($0.values) }, at: index) }
    }

    /// The value at an index as a string; nil when it is none.
    public subscript(index: Int) -> String? {
        get { value(at: index)?.string }
        set { set(newValue.map { .string($0) }, at: index) }
    }

    /// The value at an index as a Boolean value; nil when it is none.
    public subscript(index: Int) -> Bool? {
        get { value(at: index)?.bool }
        set { set(newValue.map { .bool($0) }, at: index) }
    }

    /// The value at an index as the endpoint of a listener; nil when it is none.
    public subscript(index: Int) -> XPCEndpoint? {
        get { value(at: index)?.endpoint }
        set { set(newValue.map { .endpoint($0) }, at: index) }
    }

    /// The value at an index as bytes; nil when it is none. Not in Apple's module, whose dictionaries have bytes as C objects.
    public subscript(index: Int) -> [UInt8]? {
        get { value(at: index)?.bytes }
        set { set(newValue.map { .bytes($0) }, at: index) }
    }

    /// The value at an index as a file descriptor, which the send takes out of its object; nil when it is none. Apple's module has `FileDescriptor` here.
    public subscript(index: Int) -> MessageDescriptor? {
        get { value(at: index)?.descriptor }
        set { set(newValue.map { .descriptor($0) }, at: index) }
    }

    /// The value at an index as a UUID; nil when it is none. `UUID(uuid:)` and `uuid` of Foundation convert.
    public subscript(index: Int) -> UUIDBytes? {
        get { value(at: index)?.uuid }
        set { set(newValue.map { XPCValue(uuid: $0) }, at: index) }
    }

    // MARK: Numbers

    /// The number at an index as a signed integer; nil when it is none, or does not fit. A new number must fit in an Int64.
    public subscript<Number: SignedInteger>(index: Int) -> Number? {
        get { value(at: index)?.integer(Number.self) }
        set { set(newValue.map { XPCValue(signed: $0) }, at: index) }
    }

    /// The number at an index as an unsigned integer; nil when it is none, or does not fit. A new number must fit in a UInt64.
    public subscript<Number: UnsignedInteger>(index: Int) -> Number? {
        get { value(at: index)?.integer(Number.self) }
        set { set(newValue.map { XPCValue(unsigned: $0) }, at: index) }
    }

    /// The number at an index as a floating number; nil when it is none, or does not fit. A new number is stored as a Double.
    public subscript<Number: BinaryFloatingPoint>(index: Int) -> Number? {
        get { value(at: index)?.floating(Number.self) }
        set { set(newValue.map { XPCValue(floating: $0) }, at: index) }
    }

    // MARK: Types and defaults

    /// The value at an index as a dictionary; nil when it is none.
    public subscript(index: Int, as type: XPCDictionary.Type) -> XPCDictionary? { value(at: index)?.dictionary }

    /// The value at an index as an array; nil when it is none.
    public subscript(index: Int, as type: XPCArray.Type) -> XPCArray? { value(at: index)?.array }

    /// The value at an index as a string; nil when it is none.
    public subscript(index: Int, as type: String.Type) -> String? { value(at: index)?.string }

    /// The value at an index as a Boolean value; nil when it is none.
    public subscript(index: Int, as type: Bool.Type) -> Bool? { value(at: index)?.bool }

    /// The value at an index as the endpoint of a listener; nil when it is none.
    public subscript(index: Int, as type: XPCEndpoint.Type) -> XPCEndpoint? { value(at: index)?.endpoint }

    /// The value at an index as a UUID; nil when it is none.
    public subscript(index: Int, as type: UUIDBytes.Type) -> UUIDBytes? { value(at: index)?.uuid }

    /// The number at an index as an integer; nil when it is none, or does not fit.
    public subscript<Number: BinaryInteger>(index: Int, as type: Number.Type) -> Number? {
        value(at: index)?.integer(type)
    }

    /// The number at an index as a floating number; nil when it is none.
    public subscript<Number: BinaryFloatingPoint>(index: Int, as type: Number.Type) -> Number? {
        value(at: index)?.floating(type)
    }

    /// The value at an index as a Boolean value, else the default.
    public subscript(
        index: Int, as type: Bool.Type = Bool.self, default defaultValue: @autoclosure () -> Bool
    ) -> Bool { value(at: index)?.bool ?? defaultValue() }

    /// The value at an index as a string, else the default.
    public subscript(
        index: Int, as type: String.Type = String.self, default defaultValue: @autoclosure () -> String
    ) -> String { value(at: index)?.string ?? defaultValue() }

    /// The number at an index as an integer, else the default.
    public subscript<Number: BinaryInteger>(
        index: Int, as type: Number.Type = Number.self, default defaultValue: @autoclosure () -> Number
    ) -> Number { value(at: index)?.integer(type) ?? defaultValue() }

    /// The number at an index as a floating number, else the default.
    public subscript<Number: BinaryFloatingPoint>(
        index: Int, as type: Number.Type = Number.self, default defaultValue: @autoclosure () -> Number
    ) -> Number { value(at: index)?.floating(type) ?? defaultValue() }

    /// The value at an index as an array, else the default.
    public subscript(
        index: Int, as type: XPCArray.Type = XPCArray.self, default defaultValue: @autoclosure () -> XPCArray
    ) -> XPCArray { value(at: index)?.array ?? defaultValue() }

    /// The value at an index as a UUID, else the default.
    public subscript(
        index: Int, as type: UUIDBytes.Type = UUIDBytes.self, default defaultValue: @autoclosure () -> UUIDBytes
    ) -> UUIDBytes { value(at: index)?.uuid ?? defaultValue() }

    /// The value at an index as the endpoint of a listener, else the default.
    public subscript(
        index: Int, as type: XPCEndpoint.Type = XPCEndpoint.self, default defaultValue: @autoclosure () -> XPCEndpoint
    ) -> XPCEndpoint { value(at: index)?.endpoint ?? defaultValue() }
}
