/// Writes items one behind the other. An array or a map is open, and gets its length or its break, until its value ends or
/// something is written around it.
final class CBORWriter: CBORPooled {
    static let pool = CBORPool<CBORWriter>()

    /// A value that is being written.
    struct Level {
        enum Kind: UInt8 { case slot, scalar, array, map, bytes }

        /// No other level of the writer has ever had that id.
        let id: Int
        /// A slot has no container yet.
        var kind: Kind
        /// The offset of the first byte.
        var start: Int
        /// The offset behind the last item, before the break. Only closed levels have an end.
        var end = 0
        /// The number of entries.
        var count = 0
        /// The offset of the last key.
        var key = 0
    }

    // Without the checks for exclusive access: nothing here is called while another part of it runs.
    @exclusivity(unchecked) var bytes: [UInt8] = []
    @exclusivity(unchecked) var attachments = Attachments()
    /// The innermost open level, and those around it.
    @exclusivity(unchecked) var current = Level(id: 0, kind: .scalar, start: 0)
    @exclusivity(unchecked) var outer: [Level] = []
    /// Levels whose value is still being encoded, though something was written behind them.
    @exclusivity(unchecked) var closed: [Level] = []
    @exclusivity(unchecked) var depth = 0
    /// What happened where nothing can be thrown.
    @exclusivity(unchecked) var fault: (any Error)?
    @exclusivity(unchecked) private var lastID = 0
    @exclusivity(unchecked) private var depthLimit = 0

    func end() {
        current = Level(id: 0, kind: .scalar, start: 0)
        depth = 0
        if fault != nil { fault = nil }
        // Empty after a success. The room for a usual number of levels is kept.
        if !outer.isEmpty { outer = [] }
        if !closed.isEmpty { closed = [] }
    }

    // MARK: Values

    func encodeRoot<Value: Encodable>(_ value: Value, depthLimit: Int) throws {
        self.depthLimit = depthLimit
        if bytes.capacity == 0 { bytes.reserveCapacity(128) }
        if writeDirectly(value) { return }
        current = Level(id: newID(), kind: .slot, start: bytes.count)
        try value.encode(to: CBOREncoder(writer: .passUnretained(self), id: current.id))
        endLevels(downTo: 0)
        closeCurrent()
        if let fault { throw fault }
    }

    @inline(__always) func encode<Value: Encodable>(_ value: Value) throws {
        if writeDirectly(value) { return }
        try encodeByItself(value)
    }

    private func encodeByItself<Value: Encodable>(_ value: Value) throws {
        guard depth < depthLimit else { throw tooDeep(value) }
        let (levels, closedLevels) = (outer.count, closed.count)
        pushLevel(.slot)
        try value.encode(to: CBOREncoder(writer: .passUnretained(self), id: current.id))
        endLevels(downTo: levels)
        if closed.count > closedLevels { closed.removeLast(closed.count - closedLevels) }
    }

    /// The error of a container or a value that is one too many inside others.
    func tooDeep(_ value: Any) -> EncodingError {
        error(value, "more than \(depthLimit) arrays and maps lie inside one another")
    }

    var userInfo: [CodingUserInfoKey: Any] { attachments.userInfo }

    func error(_ value: Any, _ sentence: String) -> EncodingError {
        .invalidValue(value, .init(codingPath: path, debugDescription: sentence))
    }

    // MARK: Levels

    @discardableResult
    func pushLevel(_ kind: Level.Kind) -> Int {
        outer.append(current)
        current = Level(id: newID(), kind: kind, start: bytes.count)
        return current.id
    }

    /// Ends the levels inside the one that `count` levels are around.
    @inline(__always) func endLevels(downTo count: Int) {
        while outer.count > count { popLevel() }
    }

    func popLevel() {
        closeCurrent()
        current = outer.removeLast()
    }

    /// Writes the length or the break of the innermost level.
    @inline(__always) private func closeCurrent() {
        switch current.kind {
        case .array, .map:
            depth -= 1
            if current.count > CBORByte.largestShort {
                writeHeader(of: current)
                bytes.append(CBORByte.break)
            } else {
                bytes[current.start] |= UInt8(truncatingIfNeeded: current.count)
            }
        case .slot: bytes.append(CBORMajor.map.byte(0))
        case .scalar, .bytes: break
        }
    }

    /// For a level whose entries are all there.
    func writeHeader(of level: Level) {
        let major: CBORMajor = level.kind == .array ? .array : .map
        let count = level.count > CBORByte.largestShort ? CBORByte.indefinite : UInt8(level.count)
        bytes[level.start] = major.byte(count)
    }

    /// Makes the level an array or a map. May be called again for the same kind.
    func open(_ kind: Level.Kind, _ id: Int) {
        guard current.id == id || enter(id) else { return openClosed(kind, id) }
        if current.kind == kind { return }
        if kind == .array, current.kind == .bytes { return }
        guard current.kind == .slot else { return setFault("a value asks for containers of different kinds") }
        current.kind = kind
        depth += 1
        // An encoder outside of this one would go on for ever; this one refuses the next value.
        if depth > depthLimit { fault = fault ?? tooDeep(kind) }
        bytes.append((kind == .array ? CBORMajor.array : .map).byte(0))
    }

    func setFault(_ sentence: String) { fault = fault ?? error("", sentence) }

    /// Makes an open level the innermost one. Those inside it are closed, but may get more. Returns false for a level that
    /// is not open.
    func enter(_ id: Int) -> Bool {
        guard let index = outer.lastIndex(where: { $0.id == id }) else { return false }
        while outer.count > index {
            var level = current
            level.end = bytes.count
            popLevel()
            // An empty slot is written as an empty map, which is its placeholder.
            if level.kind == .slot { level.end += 1 }
            closed.append(level)
        }
        return true
    }

    // MARK: Entries

    /// Writes an entry of a map.
    @inline(__always) func write(_ key: some CodingKey, in id: Int, _ body: () throws -> Void) throws {
        guard current.id == id || enter(id) else {
            return try insert(into: id) { [self] in
                write(text: key.stringValue)
                try body()
            }
        }
        current.count += 1
        current.key = bytes.count
        write(text: key.stringValue)
        try body()
    }

    /// Writes an element of an array.
    @inline(__always) func writeElement(in id: Int, _ body: () throws -> Void) throws {
        guard current.id == id || enter(id) else { return try insert(into: id, body) }
        if current.kind == .bytes { makeArray() }
        current.count += 1
        try body()
    }

    /// Writes the only item of a slot.
    @inline(__always) func writeSingle(in id: Int, _ body: () throws -> Void) throws {
        guard current.id == id || enter(id) else { return try insert(into: id, body) }
        guard current.kind == .slot else { throw error("", "a value asks for containers of different kinds") }
        current.kind = .scalar
        try body()
    }

    /// Begins an entry or an element that is an encoder or a container. Returns the id of its level.
    func nest(_ kind: Level.Kind, key: (some CodingKey)?, in id: Int) -> Int {
        guard current.id == id || enter(id) else { return nestClosed(kind, key: key, in: id) }
        if current.kind == .bytes { makeArray() }
        current.count += 1
        if let key {
            current.key = bytes.count
            write(text: key.stringValue)
        }
        let level = pushLevel(.slot)
        if kind != .slot { open(kind, level) }
        return level
    }

    /// The number of entries of a level.
    func count(of id: Int) -> Int {
        if current.id == id { return current.count }
        return (outer.last { $0.id == id } ?? closed.last { $0.id == id })?.count ?? 0
    }

    func newID() -> Int {
        lastID += 1
        return lastID
    }
}
