/// A value in an answer to a question about ports. New fields come last: older readers leave them out, and for newer
/// readers of an older value they are zero, false, empty or nil.
protocol Fields {
    init(from reader: inout FieldReader)
    func write(to writer: inout FieldWriter)
}

extension Fields {
    init(bytes: some Collection<UInt8>) {
        var reader = FieldReader(bytes)
        self.init(from: &reader)
    }

    var bytes: [UInt8] {
        var writer = FieldWriter()
        write(to: &writer)
        return writer.bytes
    }
}

struct FieldWriter {
    private(set) var bytes: [UInt8] = []

    /// The most bytes of a text, and values of a list. What is beyond is left out.
    static let most = 1024

    mutating func write(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: UInt64(truncatingIfNeeded: number).littleEndian) { bytes += $0 }
    }

    mutating func write(_ flag: Bool) { write(flag ? 1 : 0) }

    /// In nanoseconds.
    mutating func write(_ duration: Duration?) {
        write(duration.map { Int64(clamping: Int128($0.attoseconds / 1_000_000_000)) } ?? -1)
    }

    mutating func write(_ text: String?) {
        write(text == nil ? -1 : min(text?.utf8.count ?? 0, Self.most))
        bytes += (text ?? "").utf8.prefix(Self.most)
    }

    mutating func write(_ numbers: [Int]) {
        write(min(numbers.count, Self.most))
        for number in numbers.prefix(Self.most) { write(number) }
    }

    mutating func write(_ values: some Collection<some Fields>) {
        write(min(values.count, Self.most))
        for value in values.prefix(Self.most) {
            let fields = value.bytes
            write(fields.count)
            bytes += fields
        }
    }
}

/// Reads what a ``FieldWriter`` has written. Never fails, whatever the bytes are.
struct FieldReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: some Collection<UInt8>) { rest = Array(bytes)[...] }

    private mutating func take(_ count: Int) -> ArraySlice<UInt8> {
        let taken = rest.prefix(max(0, count))
        rest = rest.dropFirst(taken.count)
        return taken
    }

    mutating func number() -> Int {
        let bytes = take(8)
        if bytes.count < 8 { rest = [] }
        return bytes.count < 8 ? 0 : Int(truncatingIfNeeded: bytes.withUnsafeBytes { $0.little(at: 0) as UInt64 })
    }

    mutating func flag() -> Bool { number() != 0 }

    mutating func duration() -> Duration? {
        let nanoseconds = rest.isEmpty ? -1 : number()
        return nanoseconds < 0 ? nil : .nanoseconds(nanoseconds)
    }

    mutating func text() -> String? {
        let count = rest.isEmpty ? -1 : number()
        return count < 0 ? nil : String(decoding: take(count), as: UTF8.self)
    }

    mutating func numbers() -> [Int] {
        let count = number()
        var numbers: [Int] = []
        while numbers.count < count, rest.count >= 8 { numbers.append(number()) }
        return numbers
    }

    mutating func list<Value: Fields>(of type: Value.Type = Value.self) -> [Value] {
        let count = number()
        var values: [Value] = []
        // An element takes 8 bytes at least, those of its size.
        while values.count < count, rest.count >= 8 {
            let size = number()
            values.append(Value(bytes: take(size)))
        }
        return values
    }
}
