/// Writes values one behind the other. A value inside another is written where it stands; a nested container or encoder
/// gets a writer of its own, because a value may fill several of them by turns.
final class CBORWriter {
    /// A value that is being written.
    struct Level {
        enum Kind: UInt8 { case slot, scalar, array, map, bytes }

        /// No other level of the writer has ever had that id.
        let id: Int
        /// A slot has no container yet.
        var kind: Kind
        /// The offset of the first byte.
        let start: Int
        /// The number of arrays and maps that are open.
        var depth: Int
        /// The number of entries.
        var count = 0
        /// The offset of the last key.
        var key = 0
    }

    // Without the checks for exclusive access: nothing here is called while another part of it runs.
    @exclusivity(unchecked) var bytes: [UInt8] = []
    /// The innermost level, the only one that may be written to, and those around it.
    @exclusivity(unchecked) var current = Level(id: 0, kind: .scalar, start: 0, depth: 0)
    @exclusivity(unchecked) private var outer: [Level] = []
    /// The nested writers of the levels, in their order.
    @exclusivity(unchecked) private var nested: [CBORWriter] = []
    @exclusivity(unchecked) private var lastID = 1
    /// The error of a call that cannot throw.
    private(set) var fault: (any Error)?
    @exclusivity(unchecked) private var depthLimit = 0
    @exclusivity(unchecked) private var makeUserInfo: (() -> [CodingUserInfoKey: Any])?
    /// The writer of the value around a nested one.
    private let parent: CBORWriter?
    /// In the parent: that value's level, the number of levels around it, and the offset where the bytes belong.
    private let place: (id: Int, levels: Int, offset: Int)
    private let key: (any CodingKey)?

    /// Makes a writer of whole values.
    init() { (parent, place, key) = (nil, (0, 0, 0), nil) }

    /// Begins a whole value, whose level has the id 1.
    func begin(after start: Int, depthLimit: Int, makeUserInfo: @escaping () -> [CodingUserInfoKey: Any]) {
        (self.depthLimit, self.makeUserInfo) = (depthLimit, makeUserInfo)
        current = Level(id: 1, kind: .slot, start: start, depth: 0)
        lastID = 1
        if !outer.isEmpty { outer = [] }
        if fault != nil { fault = nil }
    }

    private init(inside writer: CBORWriter, key: any CodingKey) {
        (parent, self.key) = (writer, key)
        place = (writer.current.id, writer.outer.count, writer.bytes.count)
        depthLimit = writer.depthLimit
        current = Level(id: 1, kind: .slot, start: 0, depth: writer.current.depth)
        bytes.reserveCapacity(128)
    }

    /// From now on, an encoder or a container that the value has kept throws an error.
    func end() {
        makeUserInfo = nil
        if !nested.isEmpty { nested = [] }
        current = Level(id: 0, kind: .scalar, start: 0, depth: 0)
    }

    var userInfo: [CodingUserInfoKey: Any] { parent?.userInfo ?? makeUserInfo?() ?? [:] }

    // MARK: Values

    /// Writes a value at the place that was begun for it.
    @inline(__always) func encode<Value: Encodable>(_ value: Value) throws {
        if !bytes.write(item: value) { try encodeByItself(value) }
    }

    private func encodeByItself<Value: Encodable>(_ value: Value) throws {
        let (start, levels, nestedCount) = (bytes.count, outer.count, nested.count)
        do {
            guard current.depth < depthLimit else { throw tooDeep(value) }
            if bytes.write(numbers: value) { return }
            outer.append(current)
            lastID += 1
            current = Level(id: lastID, kind: .slot, start: start, depth: current.depth)
            try value.encode(to: CBOREncoder(writer: self, id: current.id))
        } catch {
            // The value around may catch the error and go on: it has no such entry.
            if outer.count > levels { current = outer.removeLast() }
            nested.removeLast(nested.count - nestedCount)
            removeEntry(at: start)
            throw error
        }
        close(nestedFrom: nestedCount)
        current = outer.removeLast()
    }

    private func removeEntry(at offset: Int) {
        var start = offset
        switch current.kind {
        case .map: (start, current.count) = (current.key, current.count - 1)
        case .array: current.count -= 1
        case .scalar: current.kind = .slot
        case .slot, .bytes: break
        }
        bytes.removeLast(bytes.count - start)
    }

    /// Writes the length or the break of the innermost level, and puts its nested values in their places.
    func close(nestedFrom first: Int) {
        if first < nested.count { insertNested(from: first) }
        switch current.kind {
        case .array, .map:
            if current.count > CBORByte.largestShort {
                bytes[current.start] |= CBORByte.indefinite
                bytes.append(CBORByte.break)
            } else {
                bytes[current.start] |= UInt8(truncatingIfNeeded: current.count)
            }
        case .slot: bytes.append(CBORMajor.map.byte(0))
        case .scalar, .bytes: break
        }
    }

    private func insertNested(from first: Int) {
        let start = nested[first].place.offset
        let later = Array(bytes[start...])
        bytes.removeLast(later.count)
        var offset = start
        for writer in nested[first...] {
            writer.close(nestedFrom: 0)
            bytes += later[offset - start..<writer.place.offset - start]
            bytes += writer.bytes
            offset = writer.place.offset
            writer.end()
        }
        bytes += later[(offset - start)...]
        while nested.count > first { nested.removeLast() }
    }

    // MARK: Containers

    /// Makes the level an array or a map. May be called again for the same kind.
    func open(_ kind: Level.Kind, _ id: Int) {
        if current.id == id, current.kind == kind || kind == .array && current.kind == .bytes { return }
        guard current.id == id, current.kind == .slot else {
            return setFault(misuse(id))
        }
        current.kind = kind
        current.depth += 1
        // This cannot throw, but the next value is refused.
        if current.depth > depthLimit { setFault(tooDeep(kind)) }
        bytes.append((kind == .array ? CBORMajor.array : .map).byte(0))
    }

    /// False for a nested writer while another value is written inside the value around it.
    @inline(__always) private var isInnermost: Bool { parent == nil || isParentInnermost }
    private var isParentInnermost: Bool { parent.map { $0.current.id == place.id && $0.isInnermost } ?? true }

    /// Begins an entry of a map.
    @inline(__always) func beginEntry(_ key: some CodingKey, in id: Int) throws {
        guard current.id == id, current.kind == .map, isInnermost else { throw misuse(id) }
        current.count += 1
        current.key = bytes.count
        bytes.write(text: key.stringValue)
    }

    /// Begins an element of an array.
    @inline(__always) func beginElement(in id: Int) throws {
        if current.id == id, current.kind == .bytes { makeArray() }
        guard current.id == id, current.kind == .array, isInnermost else { throw misuse(id) }
        current.count += 1
    }

    /// Begins the only item of a slot.
    @inline(__always) func beginSingle(in id: Int) throws {
        guard current.id == id, current.kind == .slot, isInnermost else { throw misuse(id) }
        current.kind = .scalar
    }

    /// Begins an entry or an element that is an encoder or a container.
    func nested(key: (any CodingKey)?, in id: Int) -> CBOREncoder {
        do {
            if let key { try beginEntry(key, in: id) } else { try beginElement(in: id) }
        } catch {
            setFault(error)
            return CBOREncoder(writer: self, id: 0)
        }
        let writer = CBORWriter(inside: self, key: key ?? CBORKey(intValue: current.count - 1))
        nested.append(writer)
        return CBOREncoder(writer: writer, id: writer.current.id)
    }

    /// The number of entries of a level.
    func count(of id: Int) -> Int { ([current] + outer).first { $0.id == id }?.count ?? 0 }

    // MARK: Bytes in an array

    /// Writes bytes that are elements of an array: as a byte string in place of the array, if they are all of it.
    func writeBytes(_ elements: some Sequence<UInt8>, in id: Int) throws {
        guard current.id == id, current.kind == .array, current.count == 0 else {
            for element in elements {
                try beginElement(in: id)
                bytes.write(.unsigned, UInt64(element))
            }
            return
        }
        bytes.removeLast()
        func write(_ payload: UnsafeBufferPointer<UInt8>) {
            bytes.write(.bytes, UInt64(payload.count))
            bytes += payload
            (current.kind, current.count) = (.bytes, payload.count)
        }
        if elements.withContiguousStorageIfAvailable(write) == nil { Array(elements).withUnsafeBufferPointer(write) }
    }

    /// Turns the byte string of the innermost level into an array after all.
    private func makeArray() {
        let payload = bytes.suffix(current.count)
        bytes.removeLast(bytes.count - current.start)
        current.kind = .array
        bytes.append(CBORMajor.array.byte(0))
        for byte in payload { bytes.write(.unsigned, UInt64(byte)) }
    }

    // MARK: Errors

    private static let otherKind = "a value asks for containers of different kinds"
    private static let otherValue = "a container was used while its value was not the one being encoded"

    private func misuse(_ id: Int) -> EncodingError {
        error("", current.id == id && isInnermost ? Self.otherKind : Self.otherValue)
    }

    private func tooDeep(_ value: Any) -> EncodingError {
        error(value, "more than \(depthLimit) arrays and maps lie inside one another")
    }

    private func error(_ value: Any, _ sentence: String) -> EncodingError {
        .invalidValue(value, .init(codingPath: path, debugDescription: sentence))
    }

    /// Keeps the first error of calls that cannot throw, for the end.
    private func setFault(_ error: any Error) {
        if let parent { parent.setFault(error) } else if fault == nil { fault = error }
    }

    /// The keys and indexes of the open levels, for an error.
    var path: [any CodingKey] { path(ofLevels: outer.count + 1) }

    private func path(ofLevels count: Int) -> [any CodingKey] {
        let around = (parent?.path(ofLevels: place.levels) ?? []) + (key.map { [$0] } ?? [])
        return around
            + (outer + [current]).prefix(count).compactMap { level -> CBORKey? in
                guard level.count > 0 else { return nil }
                switch level.kind {
                case .array: return CBORKey(intValue: level.count - 1)
                case .map:
                    return bytes.withUnsafeBytes { bytes in
                        let reader = CBORReader()
                        reader.begin(bytes, makeUserInfo: nil)
                        return try? reader.key(at: level.key)
                    }
                default: return nil
                }
            }
    }
}
