/// Cuts a stream of bytes into lines of a bounded length.
struct LineCutter {
    /// The bytes of a line. A longer one is cut into several.
    static let longest = 4096

    /// The begin of a line, whose end has not come yet.
    private var rest: [UInt8] = []

    /// Adds bytes to the stream.
    /// - Returns: The lines that are complete, without their ends, and without empty ones.
    mutating func add(_ bytes: some Sequence<UInt8>) -> [String] {
        rest += bytes
        var lines: [String] = []
        var start = 0
        while let (end, next) = cut(from: start) {
            if end > start { lines.append(String(decoding: rest[start..<end], as: UTF8.self)) }
            start = next
        }
        rest.removeFirst(start)
        return lines
    }

    /// The stream has ended.
    /// - Returns: The last line, if it has no end of its own.
    mutating func end() -> String? {
        defer { rest = [] }
        return rest.isEmpty ? nil : String(decoding: rest, as: UTF8.self)
    }

    /// The end of the line that begins at an index, and the begin of the next one.
    private func cut(from start: Int) -> (end: Int, next: Int)? {
        let limit = start + Self.longest
        if let newline = rest[start..<min(limit + 1, rest.count)].firstIndex(of: UInt8(ascii: "\n")) {
            return (newline, newline + 1)
        }
        guard rest.count > limit else { return nil }
        // Before a character, unless the bytes are no UTF-8.
        let end = (limit - 3...limit).last { rest[$0] & 0xC0 != 0x80 } ?? limit
        return (end, end)
    }
}
