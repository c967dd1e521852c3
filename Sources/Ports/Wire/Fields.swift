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

/// Reads what a ``FieldWriter`` has written. Never fails, whatever the bytes are: another process has written them.
struct FieldReader {
    private var rest: ArraySlice<UInt8>

    /// Sums of a few thousand counts do not overflow.
    static let mostCount = 1 << 48
    /// The end of the year 9999, in seconds since 1970.
    private static let lastTime = 253_402_300_799.0

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

    /// From zero to ``mostCount``.
    mutating func count() -> Int { min(max(0, number()), Self.mostCount) }

    /// In seconds since 1970, of a year with four digits.
    mutating func time() -> Double {
        let time = Double(bitPattern: UInt64(bitPattern: Int64(number())))
        return time.isFinite ? min(max(0, time), Self.lastTime) : 0
    }

    mutating func duration() -> Duration? {
        let nanoseconds = rest.isEmpty ? -1 : number()
        return nanoseconds < 0 ? nil : .nanoseconds(nanoseconds)
    }

    mutating func text() -> String? {
        let count = rest.isEmpty ? -1 : number()
        return count < 0 ? nil : String(decoding: take(count).prefix(FieldWriter.most), as: UTF8.self)
    }

    mutating func numbers() -> [Int] {
        var (numbers, left): ([Int], Int) = ([], number())
        while left > 0, rest.count >= 8 {
            let number = number()
            if numbers.count < FieldWriter.most { numbers.append(number) }
            left -= 1
        }
        return numbers
    }

    mutating func list<Value: Fields>(of type: Value.Type = Value.self) -> [Value] {
        var (values, left): ([Value], Int) = ([], number())
        // An element takes 8 bytes at least, those of its size.
        while left > 0, rest.count >= 8 {
            let size = number()
            let bytes = take(size)
            if values.count < FieldWriter.most { values.append(Value(bytes: bytes)) }
            left -= 1
        }
        return values
    }
}
