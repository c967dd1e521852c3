import Glibc

/// Reads items of bytes that somebody else owns, until it is closed. No function steps past the end of the bytes, whether
/// they were checked or not.
final class CBORReader: CBORPooled {
    static let pool = CBORPool<CBORReader>()

    /// What is wrong with bytes.
    enum Malformed: Error {
        case truncated, tooDeep, reserved, misplacedBreak, badChunk, surplus, badText, late

        var sentence: String {
            switch self {
            case .truncated: "the bytes end inside an item"
            case .tooDeep: "too many arrays, maps and tags lie inside one another"
            case .reserved: "an item begins with a byte that means nothing"
            case .misplacedBreak: "a break stands where an item has to be"
            case .badChunk: "a string has a chunk that is no string of the same kind"
            case .surplus: "bytes follow the value"
            case .badText: "a text is not UTF-8"
            case .late: "a container was used after its value was decoded"
            }
        }
    }

    /// The first bytes of an item.
    struct Head {
        let major: CBORMajor
        /// The low five bits of the first byte.
        let low: UInt8
        /// The count, the integer, or the bits of a floating number.
        let number: UInt64
        /// The offset behind the head.
        let end: Int

        var isIndefinite: Bool { low == CBORByte.indefinite }
    }

    @exclusivity(unchecked) private var bytes = UnsafeRawBufferPointer(start: nil, count: 0)
    @exclusivity(unchecked) private var makeUserInfo: (() -> [CodingUserInfoKey: Any])?
    /// The number of the use.
    @exclusivity(unchecked) private(set) var generation: UInt32 = 0
    /// Of the maps that are being read: the last ones of the innermost value.
    @exclusivity(unchecked) var searches: [CBORMapSearch] = []
    /// How many more bytes may be looked through to name the places of errors.
    @exclusivity(unchecked) var pathBudget = 0

    func begin(_ bytes: UnsafeRawBufferPointer, _ userInfo: (() -> [CodingUserInfoKey: Any])? = nil) {
        self.bytes = bytes
        makeUserInfo = userInfo
        pathBudget = max(1 << 20, 4 * bytes.count)
    }

    func end() {
        bytes = UnsafeRawBufferPointer(start: nil, count: 0)
        makeUserInfo = nil
        generation &+= 1
        // The room for a usual number of maps is kept.
        if searches.capacity > 64 { searches = [] } else { while !searches.isEmpty { searches.removeLast() } }
    }

    var userInfo: [CodingUserInfoKey: Any] { makeUserInfo?() ?? [:] }

    // MARK: Heads

    /// The first byte of an item.
    @inline(__always) func byte(at offset: Int) throws(Malformed) -> UInt8 {
        guard offset < bytes.count else { throw .truncated }
        return bytes[offset]
    }

    @inline(__always) func head(at offset: Int) throws(Malformed) -> Head {
        let byte = try byte(at: offset)
        let low = byte & 0x1F
        if low <= CBORByte.largestShort {
            return Head(major: CBORMajor(of: byte), low: low, number: UInt64(low), end: offset + 1)
        }
        return try longHead(byte, offset)
    }

    private func longHead(_ byte: UInt8, _ offset: Int) throws(Malformed) -> Head {
        let (major, low) = (CBORMajor(of: byte), byte & 0x1F)
        func number<Number: FixedWidthInteger & UnsignedInteger & BitwiseCopyable>(
            _: Number.Type
        ) throws(Malformed) -> Head {
            let size = MemoryLayout<Number>.size
            guard bytes.count - (offset + 1) >= size else { throw .truncated }
            let number = bytes.loadUnaligned(fromByteOffset: offset + 1, as: Number.self)
            return Head(major: major, low: low, number: UInt64(Number(bigEndian: number)), end: offset + 1 + size)
        }
        switch low {
        case 24: return try number(UInt8.self)
        case 25: return try number(UInt16.self)
        case 26: return try number(UInt32.self)
        case 27: return try number(UInt64.self)
        case CBORByte.indefinite:
            switch major {
            case .bytes, .text, .array, .map: return Head(major: major, low: low, number: .max, end: offset + 1)
            case .simple: throw .misplacedBreak
            case .unsigned, .negative, .tag: throw .reserved
            }
        default: throw .reserved
        }
    }

    /// The head of the item behind tags.
    @inline(__always) func untaggedHead(at offset: Int) throws(Malformed) -> Head {
        var head = try head(at: offset)
        while head.major == .tag { head = try self.head(at: head.end) }
        return head
    }

    /// Whether a break is there.
    @inline(__always) func isBreak(at offset: Int) -> Bool { offset < bytes.count && bytes[offset] == CBORByte.break }

    /// Whether an array or a map has no more items.
    @inline(__always) func isEnd(at offset: Int, of head: Head, after count: UInt64) -> Bool {
        head.isIndefinite ? isBreak(at: offset) : count >= head.number
    }

    // MARK: Checking

    /// Checks that the bytes are one well-formed item.
    func check(depthLimit: Int) throws(Malformed) {
        guard try end(ofItemAt: 0, depth: depthLimit) == bytes.count else { throw .surplus }
    }

    /// The offset behind the item, which was checked before.
    @inline(__always) func end(ofItemAt offset: Int) throws(Malformed) -> Int { try end(ofItemAt: offset, depth: .max) }

    /// The offset behind the item. At most `depth` arrays, maps and tags may lie inside one another.
    private func end(ofItemAt offset: Int, depth: Int) throws(Malformed) -> Int {
        let head = try head(at: offset)
        switch head.major {
        case .unsigned, .negative: return head.end
        case .bytes, .text: return try end(ofString: head)
        case .simple:
            // A byte of its own says what has no short form.
            if head.low == 24, head.number < 32 { throw .reserved }
            return head.end
        case .array, .map, .tag:
            guard depth > 0 else { throw .tooDeep }
            return try end(ofItemsIn: head, depth: depth - 1)
        }
    }

    private func end(ofItemsIn head: Head, depth: Int) throws(Malformed) -> Int {
        if head.major == .tag { return try end(ofItemAt: head.end, depth: depth) }
        // Every item has a byte at least. That also keeps the doubled count from an overflow.
        if !head.isIndefinite, head.number > UInt64(bytes.count - head.end) { throw .truncated }
        var offset = head.end
        var count: UInt64 = 0
        while !isEnd(at: offset, of: head, after: count) {
            offset = try end(ofItemAt: offset, depth: depth)
            if head.major == .map { offset = try end(ofItemAt: offset, depth: depth) }
            count += 1
        }
        return head.isIndefinite ? offset + 1 : offset
    }

    private func end(ofString head: Head) throws(Malformed) -> Int {
        if !head.isIndefinite { return try payload(of: head).upperBound }
        var offset = head.end
        while !isBreak(at: offset) {
            let chunk = try self.head(at: offset)
            guard chunk.major == head.major, !chunk.isIndefinite else { throw .badChunk }
            offset = try payload(of: chunk).upperBound
        }
        return offset + 1
    }

    // MARK: Strings

    /// The place of a string with a length.
    @inline(__always) private func payload(of head: Head) throws(Malformed) -> Range<Int> {
        guard head.number <= UInt64(bytes.count - head.end) else { throw .truncated }
        return head.end..<head.end + Int(head.number)
    }

    /// Hands over a string's bytes: in one piece, or chunk by chunk.
    @inline(__always)
    private func chunks(of head: Head, _ body: (UnsafeRawBufferPointer) throws(Malformed) -> Void) throws(Malformed) {
        if !head.isIndefinite { return try body(UnsafeRawBufferPointer(rebasing: bytes[try payload(of: head)])) }
        var offset = head.end
        while !isBreak(at: offset) {
            let chunk = try self.head(at: offset)
            let payload = try payload(of: chunk)
            try body(UnsafeRawBufferPointer(rebasing: bytes[payload]))
            offset = payload.upperBound
        }
    }

    func payload(ofString head: Head) throws(Malformed) -> [UInt8] {
        var payload: [UInt8] = []
        try chunks(of: head) { payload += $0 }
        return payload
    }

    /// The text of an item that is one.
    func text(at offset: Int) throws(Malformed) -> String { try text(of: try untaggedHead(at: offset)) }

    func text(of head: Head) throws(Malformed) -> String {
        var text = ""
        try chunks(of: head) { (chunk) throws(Malformed) in
            do {
                let part = String(copying: try UTF8Span(validating: chunk.bindMemory(to: UInt8.self).span))
                if text.isEmpty { text = part } else { text += part }
            } catch { throw .badText }
        }
        return text
    }

    /// Whether the item is a text of these bytes.
    @inline(__always)
    func isText(_ text: UnsafeBufferPointer<UInt8>, at offset: Int) throws(Malformed) -> Bool {
        let head = try untaggedHead(at: offset)
        guard head.major == .text else { return false }
        if head.isIndefinite { return try payload(ofString: head).elementsEqual(text) }
        guard head.number == UInt64(text.count) else { return false }
        guard let start = text.baseAddress, let bytes = bytes.baseAddress else { return text.isEmpty }
        return memcmp(bytes + (try payload(of: head)).lowerBound, start, text.count) == 0
    }
}
