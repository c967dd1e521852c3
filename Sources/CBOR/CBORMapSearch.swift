/// Where the last key of a map was found. Values nearly always ask for their keys in the order in which they were written,
/// so the next key is looked for there first.
struct CBORMapSearch {
    /// Names a search, while the value around the map is decoded.
    struct ID {
        /// The place of the search among the reader's.
        let position: Int
        /// The offset of the map.
        let start: Int
    }

    let start: Int
    let head: CBORReader.Head
    /// The offset of the entry that was found last, or of the first one, and its number.
    var entry: Int
    var number: UInt64 = 0
    /// The offset of the entry behind that one; 0: not known yet.
    var next = 0
    /// Whether all entries up to that one were asked for: then the next one with a key that was not asked for is the first
    /// with that key.
    var isInOrder = true
    /// A bit for each key that was found in order. Keys may share one.
    var asked: UInt64 = 0
    /// Whether no key comes twice, as far as is known.
    var areKeysUnique = false
    /// Whether the entry was asked for; the first one may not have been.
    var isFound = false
    /// How many more bytes may be looked through from the first entry on. Without such a bound, a type with many keys would
    /// look through all of a peer's large map for each.
    var budget = 1 << 14
    /// The first value of each key, once the budget is spent.
    var index: [String: Int]?

    init(start: Int, _ head: CBORReader.Head) { (self.start, self.head, entry) = (start, head, head.end) }
}

extension CBORReader {
    /// Begins to search a map.
    func newSearch(start: Int, _ head: Head) -> CBORMapSearch.ID {
        searches.append(CBORMapSearch(start: start, head))
        return CBORMapSearch.ID(position: searches.count - 1, start: start)
    }

    @inline(__always) private func position(of search: CBORMapSearch.ID) throws(Malformed) -> Int {
        guard search.position < searches.count, searches[search.position].start == search.start else { throw .late }
        return search.position
    }

    /// The offset of a key's value.
    @inline(__always) func presentValue(of key: some CodingKey, _ search: CBORMapSearch.ID) throws -> Int {
        if let value = try value(of: key, search) { return value }
        throw DecodingError.keyNotFound(
            key,
            .init(
                codingPath: path(to: search.start),
                debugDescription: "the map has no key \"\(key.stringValue)\""))
    }

    /// The different keys of a map that the type knows.
    func keys<Key: CodingKey>(_: Key.Type, _ search: CBORMapSearch.ID) throws -> [Key] {
        let position = try position(of: search)
        let head = searches[position].head
        var (names, areUnique) = ([] as Set<String>, true)
        var keys: [Key] = []
        func isNew(_ name: String) -> Bool {
            let isNew = head.number == 1 || names.insert(name).inserted
            if !isNew { areUnique = false }
            return isNew
        }
        try entries(of: head) { (offset, _) throws(Malformed) in
            if let number = try integerKey(at: offset) {
                if isNew(String(number)), let key = Key(intValue: number) { keys.append(key) }
            } else if let name = try name(at: offset), isNew(name), let key = Key(stringValue: name) {
                keys.append(key)
            }
        }
        searches[position].areKeysUnique = areUnique
        return keys
    }

    /// The offset of a key's value; nil when the map has no such key.
    func value(of key: some CodingKey, _ search: CBORMapSearch.ID) throws(Malformed) -> Int? {
        let position = try position(of: search)
        var name = key.stringValue
        let number = key.intValue
        // `withUTF8` passes no typed errors on.
        let result = name.withUTF8 { name -> Result<Int?, Malformed> in
            do throws(Malformed) { return .success(try value(of: name, number, position)) } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func value(
        of name: UnsafeBufferPointer<UInt8>, _ number: Int?, _ position: Int
    ) throws(Malformed) -> Int? {
        // The fields one by one: a copy of all of them would retain the index.
        let head = searches[position].head
        guard searches[position].isInOrder else { return try scannedValue(of: name, number, position) }
        let (entry, count) = (searches[position].entry, searches[position].number)
        if isEnd(at: entry, of: head, after: count) { return nil }
        if try isKey(name, number, at: entry) {
            if !searches[position].isFound {
                searches[position].isFound = true
                searches[position].asked = Self.bit(of: name)
            }
            return try end(ofItemAt: entry)
        }
        guard searches[position].isFound else { return try scannedValue(of: name, number, position) }
        var next = searches[position].next
        if next == 0 {
            next = try end(ofItemAt: try end(ofItemAt: entry))
            searches[position].next = next
        }
        if !isEnd(at: next, of: head, after: count + 1), try isKey(name, number, at: next) {
            let value = try end(ofItemAt: next)
            let bit = Self.bit(of: name)
            if searches[position].asked & bit != 0, !searches[position].areKeysUnique {
                // The key may have been asked for, and the entry may be the second one with it.
                let first = try scannedValue(of: name, number, position)
                if first != value || searches[position].index != nil { return first }
                searches[position].isInOrder = true
            }
            searches[position].asked |= bit
            searches[position].entry = next
            searches[position].number = count + 1
            searches[position].next = 0
            return value
        }
        return try scannedValue(of: name, number, position)
    }

    /// The bit that stands for a key in ``CBORMapSearch/asked``.
    @inline(__always) private static func bit(of name: UnsafeBufferPointer<UInt8>) -> UInt64 {
        guard let first = name.first, let last = name.last else { return 1 }
        return 1 << UInt64((Int(first) &* 7 &+ Int(last) &* 31 &+ name.count &* 13) & 63)
    }

    /// Looks at all entries from the first on.
    private func scannedValue(
        of name: UnsafeBufferPointer<UInt8>, _ number: Int?, _ position: Int
    ) throws(Malformed) -> Int? {
        if let index = searches[position].index { return index[String(decoding: name, as: UTF8.self)] }
        let head = searches[position].head
        var offset = head.end
        var count: UInt64 = 0
        while !isEnd(at: offset, of: head, after: count) {
            guard searches[position].budget > 0 else {
                let index = try index(of: head)
                searches[position].index = index
                searches[position].isInOrder = false
                return index[String(decoding: name, as: UTF8.self)]
            }
            if try isKey(name, number, at: offset) {
                searches[position].isInOrder = false
                return try end(ofItemAt: offset)
            }
            let next = try end(ofItemAt: try end(ofItemAt: offset))
            searches[position].budget -= next - offset
            offset = next
            count += 1
        }
        return nil
    }

    private func isKey(_ name: UnsafeBufferPointer<UInt8>, _ number: Int?, at offset: Int) throws(Malformed) -> Bool {
        if try isText(name, at: offset) { return true }
        guard let number else { return false }
        return try integerKey(at: offset) == number
    }

    /// The integer of a key that is one.
    func integerKey(at offset: Int) throws(Malformed) -> Int? {
        let head = try untaggedHead(at: offset)
        switch head.major {
        case .unsigned: return Int(exactly: head.number)
        case .negative: return Int(exactly: head.number).map { ~$0 }
        default: return nil
        }
    }

    private func index(of head: Head) throws(Malformed) -> [String: Int] {
        var index: [String: Int] = [:]
        try entries(of: head) { (key, value) throws(Malformed) in
            let number = try integerKey(at: key)
            let name = if let number { String(number) } else { try name(at: key) }
            if let name, index[name] == nil { index[name] = value }
        }
        return index
    }

    /// The text of a key; nil when it is another item or no UTF-8, which no value asks for.
    func name(at offset: Int) throws(Malformed) -> String? {
        let head = try untaggedHead(at: offset)
        return head.major == .text ? try? text(of: head) : nil
    }

    /// Calls `body` with the offsets of each key and its value.
    func entries(
        of head: Head, _ body: (_ key: Int, _ value: Int) throws(Malformed) -> Void
    ) throws(Malformed) {
        var offset = head.end
        var count: UInt64 = 0
        while !isEnd(at: offset, of: head, after: count) {
            let value = try end(ofItemAt: offset)
            try body(offset, value)
            offset = try end(ofItemAt: value)
            count += 1
        }
    }
}
