import Glibc

/// Reads items of bytes that somebody else owns, until ``end()``. No function steps past the end of the bytes, whether
/// they were checked or not.
final class CBORReader {
    // Without the checks for exclusive access: nothing here is called while another part of it runs.
    @exclusivity(unchecked) private var bytes = UnsafeRawBufferPointer(start: nil, count: 0)
    @exclusivity(unchecked) private var makeUserInfo: (() -> [CodingUserInfoKey: Any])?
    /// The number of bytes that may still be read to name the places of errors.
    @exclusivity(unchecked) private var pathBudget = 0
    @exclusivity(unchecked) private var isOver = true
    /// The bytes, if they are the reader's own.
    private let own: UnsafeMutableRawBufferPointer?
    /// The reader of the value around, and the place of these items in it.
    private let parent: (reader: CBORReader, offset: Int)?

    init() { (own, parent) = (nil, nil) }

    /// A reader of other items, which it keeps, in place of one that another reader has.
    init(_ items: [UInt8], inPlaceOf offset: Int, in reader: CBORReader) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: items.count, alignment: 1)
        copy.copyBytes(from: items)
        (own, parent) = (copy, (reader, offset))
        begin(UnsafeRawBufferPointer(copy), makeUserInfo: nil)
    }

    deinit { own?.deallocate() }

    /// Whether the value around was decoded, which a container of these items may not outlive.
    var outlivesParent: Bool { parent.map { $0.reader.isOver || $0.reader.outlivesParent } ?? false }

    /// Begins with bytes that stay until ``end()``.
    func begin(_ bytes: UnsafeRawBufferPointer, makeUserInfo: (() -> [CodingUserInfoKey: Any])?) {
        (self.bytes, self.makeUserInfo, isOver) = (bytes, makeUserInfo, false)
        pathBudget = max(1 << 20, 4 * bytes.count)
    }

    /// From now on, a decoder or a container that the value has kept throws an error.
    func end() {
        bytes = UnsafeRawBufferPointer(start: nil, count: 0)
        (makeUserInfo, isOver) = (nil, true)
    }

    var userInfo: [CodingUserInfoKey: Any] { parent?.reader.userInfo ?? makeUserInfo?() ?? [:] }

    // MARK: Heads

    @inline(__always) func head(at offset: Int) throws -> CBORHead {
        guard offset < bytes.count else { throw truncated }
        let byte = bytes[offset]
        let low = byte & 0x1F
        if low <= CBORByte.largestShort {
            return CBORHead(major: CBORMajor(of: byte), low: low, number: UInt64(low), end: offset + 1)
        }
        return try longHead(byte, offset)
    }

    private func longHead(_ byte: UInt8, _ offset: Int) throws -> CBORHead {
        let (major, low) = (CBORMajor(of: byte), byte & 0x1F)
        func number<Number: FixedWidthInteger & UnsignedInteger & BitwiseCopyable>(_: Number.Type) throws -> CBORHead {
            let size = MemoryLayout<Number>.size
            guard bytes.count - (offset + 1) >= size else { throw truncated }
            let number = bytes.loadUnaligned(fromByteOffset: offset + 1, as: Number.self)
            return CBORHead(major: major, low: low, number: UInt64(Number(bigEndian: number)), end: offset + 1 + size)
        }
        switch (low, major) {
        case (24, _): return try number(UInt8.self)
        case (25, _): return try number(UInt16.self)
        case (26, _): return try number(UInt32.self)
        case (27, _): return try number(UInt64.self)
        case (CBORByte.indefinite, .bytes), (CBORByte.indefinite, .text), (CBORByte.indefinite, .array),
            (CBORByte.indefinite, .map):
            return CBORHead(major: major, low: low, number: .max, end: offset + 1)
        case (CBORByte.indefinite, .simple): throw malformed("a break stands where an item has to be")
        default: throw reserved
        }
    }

    /// Whether a tag or a byte string begins here.
    func isStringOrTagged(at offset: Int) -> Bool {
        guard offset < bytes.count else { return false }
        let major = CBORMajor(of: bytes[offset])
        return major == .bytes || major == .tag
    }

    /// The head of the item behind tags, and the last tag.
    func taggedHead(at offset: Int) throws -> (tag: UInt64?, head: CBORHead) {
        var (head, tag) = (try head(at: offset), UInt64?.none)
        while head.major == .tag { (head, tag) = (try self.head(at: head.end), head.number) }
        return (tag, head)
    }

    /// The head of the item behind tags.
    @inline(__always) func untaggedHead(at offset: Int) throws -> CBORHead {
        var head = try head(at: offset)
        while head.major == .tag { head = try self.head(at: head.end) }
        return head
    }

    /// True at the break of an array, a map or a string without a length.
    @inline(__always) private func isBreak(at offset: Int) -> Bool {
        offset < bytes.count && bytes[offset] == CBORByte.break
    }

    /// True behind the last of an array's or a map's `count` items.
    @inline(__always) func isEnd(at offset: Int, of head: CBORHead, after count: UInt64) -> Bool {
        head.isIndefinite ? isBreak(at: offset) : count >= head.number
    }

    // MARK: Checking

    /// Checks that the bytes are one well-formed item.
    func check(depthLimit: Int) throws {
        guard try end(ofItemAt: 0, depth: depthLimit) == bytes.count else { throw malformed("bytes follow the value") }
    }

    /// The offset behind the item. At most `depth` arrays, maps and tags may lie inside one another.
    func end(ofItemAt offset: Int, depth: Int = .max) throws -> Int {
        let head = try head(at: offset)
        switch head.major {
        case .unsigned, .negative: return head.end
        case .bytes, .text: return try end(ofString: head)
        case .simple:
            // A byte of its own stands only for numbers without a short form.
            if head.low == 24, head.number < 32 { throw reserved }
            return head.end
        case .array, .map, .tag:
            guard depth > 0 else { throw malformed("too many arrays, maps and tags lie inside one another") }
            return try end(ofItemsIn: head, depth: depth - 1)
        }
    }

    private func end(ofItemsIn head: CBORHead, depth: Int) throws -> Int {
        if head.major == .tag { return try end(ofItemAt: head.end, depth: depth) }
        // Every item has a byte at least.
        if !head.isIndefinite, head.number > UInt64(bytes.count - head.end) { throw truncated }
        var offset = head.end
        var count: UInt64 = 0
        while !isEnd(at: offset, of: head, after: count) {
            offset = try end(ofItemAt: offset, depth: depth)
            if head.major == .map { offset = try end(ofItemAt: offset, depth: depth) }
            count += 1
        }
        return head.isIndefinite ? offset + 1 : offset
    }

    @inline(__always) private func end(ofString head: CBORHead) throws -> Int {
        head.isIndefinite ? try end(ofChunks: head) : try end(ofPayload: head)
    }

    private func end(ofChunks head: CBORHead) throws -> Int {
        var offset = head.end
        while !isBreak(at: offset) {
            let chunk = try self.head(at: offset)
            guard chunk.major == head.major, !chunk.isIndefinite else {
                throw malformed("a string has a chunk that is no string of the same kind")
            }
            offset = try end(ofPayload: chunk)
        }
        return offset + 1
    }

    // MARK: Strings

    /// The bytes of a string with a length.
    @inline(__always) func payload(of head: CBORHead) throws -> UnsafeRawBufferPointer {
        guard head.number <= UInt64(bytes.count - head.end) else { throw truncated }
        return UnsafeRawBufferPointer(rebasing: bytes[head.end..<head.end + Int(head.number)])
    }

    /// The offset behind a string with a length.
    @inline(__always) private func end(ofPayload head: CBORHead) throws -> Int {
        head.end + (try payload(of: head).count)
    }

    /// Hands over a string's bytes: in one piece, or chunk by chunk.
    @inline(__always)
    private func chunks(of head: CBORHead, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        if !head.isIndefinite { return try body(payload(of: head)) }
        var offset = head.end
        while !isBreak(at: offset) {
            let chunk = try self.head(at: offset)
            try body(payload(of: chunk))
            offset = try end(ofPayload: chunk)
        }
    }

    func payload(ofString head: CBORHead) throws -> [UInt8] {
        var payload: [UInt8] = []
        try chunks(of: head) { payload += $0 }
        return payload
    }

    /// The text of an item that is one; nil when its bytes are not UTF-8.
    func text(of head: CBORHead) throws -> String? {
        var (text, isValid) = ("", true)
        try chunks(of: head) { chunk in
            do {
                let part = String(copying: try UTF8Span(validating: chunk.bindMemory(to: UInt8.self).span))
                if text.isEmpty { text = part } else { text += part }
            } catch { isValid = false }
        }
        return isValid ? text : nil
    }

    /// True when the item is a text of these bytes.
    @inline(__always)
    func isText(_ text: UnsafeBufferPointer<UInt8>, at offset: Int) throws -> Bool {
        let head = try untaggedHead(at: offset)
        guard head.major == .text else { return false }
        if head.isIndefinite { return try payload(ofString: head).elementsEqual(text) }
        guard head.number == UInt64(text.count) else { return false }
        guard let start = text.baseAddress, let payload = try payload(of: head).baseAddress else { return text.isEmpty }
        return memcmp(payload, start, text.count) == 0
    }

    // MARK: Maps

    /// The integer of a key that is one.
    func integerKey(at offset: Int) throws -> Int? {
        let head = try untaggedHead(at: offset)
        switch head.major {
        case .unsigned: return Int(exactly: head.number)
        case .negative: return Int(exactly: head.number).map { ~$0 }
        default: return nil
        }
    }

    /// A key that is an integer or a text; nil for another item, and for a text that is not UTF-8.
    func key(at offset: Int) throws -> CBORKey? {
        if let number = try integerKey(at: offset) { return CBORKey(integer: number) }
        let head = try untaggedHead(at: offset)
        return head.major == .text ? try text(of: head).map { CBORKey(stringValue: $0) } : nil
    }

    // MARK: Errors

    var truncated: DecodingError {
        malformed(
            isOver || outlivesParent
                ? "a container was used after its value was decoded" : "the bytes end inside an item")
    }

    private var reserved: DecodingError { malformed("an item begins with a byte that means nothing") }

    private func malformed(_ sentence: String) -> DecodingError {
        .dataCorrupted(.init(codingPath: [], debugDescription: sentence))
    }

    /// The keys and indexes that lead to an item, for an error. They are found by reading from the start. The path is empty
    /// when errors have used up the budget for that: a value may try many types for each item of a large array.
    func path(to target: Int) -> [any CodingKey] {
        var path = parent.map { $0.reader.path(to: $0.offset) } ?? []
        var offset = 0
        while budgetReader.pathBudget > 0, offset < target, let child = try? child(at: offset, holding: target) {
            if let key = child.key { path.append(key) }
            offset = child.offset
        }
        return path
    }

    /// The reader whose budget all readers of a value share.
    private var budgetReader: CBORReader { parent?.reader.budgetReader ?? self }

    private func child(at offset: Int, holding target: Int) throws -> (offset: Int, key: CBORKey?)? {
        let head = try head(at: offset)
        if head.major == .tag { return (head.end, nil) }
        guard head.major == .array || head.major == .map else { return nil }
        var item = head.end
        var count: UInt64 = 0
        while !isEnd(at: item, of: head, after: count) {
            let value = head.major == .map ? try end(ofItemAt: item) : item
            let end = try end(ofItemAt: value)
            budgetReader.pathBudget -= end - item
            if target < end {
                guard target >= value else { return nil }
                return (value, head.major == .map ? try key(at: item) : CBORKey(intValue: Int(count)))
            }
            item = end
            count += 1
        }
        return nil
    }
}
