/// Writes items one behind the other. An array or a map stays open until its value ends or something is written around it,
/// and then gets its length or its break.
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
        /// The number of entries.
        var count = 0
        /// The offset of the last key.
        var key = 0
    }

    // Without the checks for exclusive access: nothing here is called while another part of it runs.
    @exclusivity(unchecked) var bytes: [UInt8] = []
    @exclusivity(unchecked) var makeUserInfo: (() -> [CodingUserInfoKey: Any])?
    /// The innermost open level, and those around it.
    @exclusivity(unchecked) var current = Level(id: 0, kind: .scalar, start: 0)
    @exclusivity(unchecked) var outer: [Level] = []
    @exclusivity(unchecked) var depth = 0
    /// The containers of values that are being encoded, behind which something was written. In order of their ids.
    @exclusivity(unchecked) var left: [LeftContainer] = []
    /// The later entries of ``left``.
    @exclusivity(unchecked) var parts: [LatePart] = []
    /// The part that is being written; -1 for none.
    @exclusivity(unchecked) var part = -1
    /// The id of the first level of the innermost value. Only its own levels may be written to.
    @exclusivity(unchecked) private(set) var valueID = 0
    /// What happened where nothing can be thrown.
    @exclusivity(unchecked) var fault: (any Error)?
    @exclusivity(unchecked) private var lastID = 0
    @exclusivity(unchecked) private var depthLimit = 0

    func end() {
        current = Level(id: 0, kind: .scalar, start: 0)
        depth = 0
        makeUserInfo = nil
        if fault != nil { fault = nil }
        // Empty after a success. The room for a usual number of levels is kept.
        if !outer.isEmpty { outer = [] }
        if !left.isEmpty { (left, parts) = ([], []) }
        valueID = 0
    }

    // MARK: Values

    func encodeRoot<Value: Encodable>(_ value: Value, depthLimit: Int) throws {
        self.depthLimit = depthLimit
        if bytes.capacity == 0 { bytes.reserveCapacity(128) }
        if writeDirectly(value) { return }
        current = Level(id: newID(), kind: .slot, start: bytes.count)
        valueID = current.id
        try value.encode(to: CBOREncoder(writer: .passUnretained(self), id: current.id))
        endLevels(downTo: 0)
        closeCurrent()
        if !left.isEmpty { joinParts() }
        if let fault { throw fault }
    }

    @inline(__always) func encode<Value: Encodable>(_ value: Value) throws {
        if writeDirectly(value) { return }
        try encodeByItself(value)
    }

    private func encodeByItself<Value: Encodable>(_ value: Value) throws {
        let (start, levels, around, depth) = (bytes.count, outer.count, valueID, depth)
        do {
            guard depth < depthLimit else { throw tooDeep(value) }
            valueID = pushLevel(.slot)
            try value.encode(to: CBOREncoder(writer: .passUnretained(self), id: valueID))
        } catch {
            removeEntry(from: start, inside: levels)
            (self.depth, valueID) = (depth, around)
            throw error
        }
        endLevels(downTo: levels)
        if !left.isEmpty { joinParts() }
        valueID = around
    }

    /// Removes what the innermost value has written before it failed, and its key: the value around it may catch the error
    /// and go on.
    private func removeEntry(from start: Int, inside levels: Int) {
        // Not if it is too deep.
        if outer.count > levels {
            current = outer[levels]
            outer.removeLast(outer.count - levels)
            if !left.isEmpty { dropParts() }
        }
        var start = start
        switch current.kind {
        case .map:
            start = current.key
            current.count -= 1
        case .array: current.count -= 1
        case .scalar: current.kind = .slot
        case .slot, .bytes: break
        }
        bytes.removeLast(bytes.count - start)
    }

    /// The error of a container or a value that is one too many inside others.
    func tooDeep(_ value: Any) -> EncodingError {
        error(value, "more than \(depthLimit) arrays and maps lie inside one another")
    }

    var userInfo: [CodingUserInfoKey: Any] { makeUserInfo?() ?? [:] }

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
    @inline(__always) func closeCurrent() {
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
        reach(id) { [self] in openCurrent(kind) }
    }

    private func openCurrent(_ kind: Level.Kind) {
        if current.kind == kind { return }
        if kind == .array, current.kind == .bytes { return }
        guard current.kind == .slot else { return setFault(Self.otherKind) }
        current.kind = kind
        depth += 1
        // An encoder outside of this one would go on for ever; this one refuses the next value.
        if depth > depthLimit { fault = fault ?? tooDeep(kind) }
        bytes.append((kind == .array ? CBORMajor.array : .map).byte(0))
    }

    static let otherKind = "a value asks for containers of different kinds"

    private func setFault(_ sentence: String) { fault = fault ?? error("", sentence) }

    /// As ``write(into:_:)``, for what cannot throw.
    @inline(__always) private func reach(_ id: Int, _ body: () -> Void) {
        if current.id == id { return body() }
        do { try write(into: id, body) } catch { fault = fault ?? error }
    }

    // MARK: Entries

    /// Writes an entry of a map.
    @inline(__always) func write(_ key: some CodingKey, in id: Int, _ body: () throws -> Void) throws {
        guard current.id == id else {
            return try write(into: id) { [self] in
                beginEntry(key)
                try body()
            }
        }
        beginEntry(key)
        try body()
    }

    @inline(__always) private func beginEntry(_ key: some CodingKey) {
        current.count += 1
        current.key = bytes.count
        write(text: key.stringValue)
    }

    /// Writes an element of an array.
    @inline(__always) func writeElement(in id: Int, _ body: () throws -> Void) throws {
        guard current.id == id else {
            return try write(into: id) { [self] in
                beginElement()
                try body()
            }
        }
        beginElement()
        try body()
    }

    @inline(__always) private func beginElement() {
        if current.kind == .bytes { makeArray() }
        current.count += 1
    }

    /// Writes the only item of a slot.
    @inline(__always) func writeSingle(in id: Int, _ body: () throws -> Void) throws {
        guard current.id == id else {
            return try write(into: id) { [self] in
                try fillSlot()
                try body()
            }
        }
        try fillSlot()
        try body()
    }

    @inline(__always) private func fillSlot() throws {
        guard current.kind == .slot else { throw error("", Self.otherKind) }
        current.kind = .scalar
    }

    /// Begins an entry or an element that is an encoder or a container. Returns the id of its level.
    func nest(_ kind: Level.Kind, key: (some CodingKey)?, in id: Int) -> Int {
        // The id of no level, if the container cannot be used any more.
        var nested = 0
        reach(id) { [self] in
            if let key { beginEntry(key) } else { beginElement() }
            nested = pushLevel(.slot)
            if kind != .slot { openCurrent(kind) }
        }
        return nested
    }

    func newID() -> Int {
        lastID += 1
        return lastID
    }
}
