/// Where the last key of a map was found. Values nearly always ask for their keys in the order in which they were written,
/// so the next key is looked for there first.
struct CBORMapSearch {
    /// The offset of the map.
    let start: Int
    let head: CBORReader.Head
    /// The offset of the entry that was found last, or of the first one, and its number.
    var entry: Int
    var number: UInt64 = 0
    /// Whether all entries before that one were asked for: then the next one with a key is the first with that key.
    var isInOrder = true
    /// How many more entries may be looked at one after the other. Without such a bound, a peer's map of many keys would
    /// cost a number of steps that grows with its square.
    var steps = 1024
    /// The first entry with each key, once the steps are used up.
    var index: [String: Int]?

    init(start: Int, _ head: CBORReader.Head) { (self.start, self.head, entry) = (start, head, head.end) }
}

extension CBORReader {
    /// The offset of a key's value; nil when the map has no such key. `search` is the number of the map's search.
    func value(of key: some CodingKey, search: Int) throws(Malformed) -> Int? {
        var name = key.stringValue
        let number = key.intValue
        // `withUTF8` passes no typed errors on.
        let result = name.withUTF8 { name -> Result<Int?, Malformed> in
            do throws(Malformed) { return .success(try value(of: name, number, search)) } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func value(
        of name: UnsafeBufferPointer<UInt8>, _ number: Int?, _ position: Int
    ) throws(Malformed) -> Int? {
        let search = searches[position]
        guard search.index == nil else { return searches[position].index?[String(decoding: name, as: UTF8.self)] }
        if search.isInOrder, !isEnd(at: search.entry, of: search.head, after: search.number) {
            if try isKey(name, number, at: search.entry) { return try end(ofItemAt: search.entry) }
            let next = try end(ofItemAt: try end(ofItemAt: search.entry))
            if !isEnd(at: next, of: search.head, after: search.number + 1), try isKey(name, number, at: next) {
                searches[position].entry = next
                searches[position].number += 1
                return try end(ofItemAt: next)
            }
        }
        return try scannedValue(of: name, number, position)
    }

    /// Looks at all entries from the first on.
    private func scannedValue(
        of name: UnsafeBufferPointer<UInt8>, _ number: Int?, _ position: Int
    ) throws(Malformed) -> Int? {
        let search = searches[position]
        var offset = search.head.end
        var count: UInt64 = 0
        while !isEnd(at: offset, of: search.head, after: count) {
            guard searches[position].steps > 0 else {
                searches[position].index = try index(of: search.head)
                return searches[position].index?[String(decoding: name, as: UTF8.self)]
            }
            searches[position].steps -= 1
            if try isKey(name, number, at: offset) {
                searches[position].isInOrder = false
                return try end(ofItemAt: offset)
            }
            offset = try end(ofItemAt: try end(ofItemAt: offset))
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
