/// Writing into values that something was written behind, such as the first of two nested containers that are filled by
/// turns. What comes behind moves.
extension CBORWriter {
    /// Writes an item at the end of a closed level.
    func insert(into id: Int, _ body: () throws -> Void) throws {
        guard let index = closed.lastIndex(where: { $0.id == id }) else {
            throw error("", "a container was used after its value was encoded")
        }
        let inserted = try detached(body)
        switch closed[index].kind {
        case .slot:
            // The placeholder goes.
            closed[index].kind = .scalar
            bytes.remove(at: closed[index].start)
            move(closed[index], by: -1)
            closed[index].end -= 1
            add(inserted, to: index)
        case .array, .map:
            add(inserted, to: index)
            countEntry(of: index)
        case .scalar, .bytes: throw error("", "a value asks for containers of different kinds")
        }
    }

    /// Makes a closed slot, which has a placeholder, an array or a map.
    func openClosed(_ kind: Level.Kind, _ id: Int) {
        guard let index = closed.lastIndex(where: { $0.id == id }) else {
            return setFault("a container was used after its value was encoded")
        }
        if closed[index].kind == kind { return }
        guard closed[index].kind == .slot else { return setFault("a value asks for containers of different kinds") }
        closed[index].kind = kind
        writeHeader(of: closed[index])
    }

    /// As ``nest(_:key:in:)``, in a closed level. The new level is closed, too.
    func nestClosed(_ kind: Level.Kind, key: (some CodingKey)?, in id: Int) -> Int {
        let nested = newID()
        do {
            try insert(into: id) { [self] in
                if let key { write(text: key.stringValue) }
                bytes.append((kind == .array ? CBORMajor.array : .map).byte(0))
            }
        } catch {
            fault = fault ?? error
            return nested
        }
        guard let parent = closed.last(where: { $0.id == id }) else { return nested }
        closed.append(Level(id: nested, kind: kind, start: parent.end - 1, end: parent.end))
        return nested
    }

    /// What `body` writes, apart from everything else.
    private func detached(_ body: () throws -> Void) throws -> [UInt8] {
        let (levels, closedLevels, around, allBytes) = (outer, closed, current, bytes)
        (outer, closed, current, bytes) = ([], [], Level(id: newID(), kind: .scalar, start: 0), [])
        defer { (outer, closed, current, bytes) = (levels, closedLevels, around, allBytes) }
        try body()
        return bytes
    }

    private func add(_ inserted: [UInt8], to index: Int) {
        bytes.insert(contentsOf: inserted, at: closed[index].end)
        move(closed[index], by: inserted.count)
        closed[index].end += inserted.count
    }

    private func countEntry(of index: Int) {
        closed[index].count += 1
        writeHeader(of: closed[index])
        if closed[index].count == CBORByte.largestShort + 1 {
            bytes.insert(CBORByte.break, at: closed[index].end)
            move(closed[index], by: 1)
        }
    }

    /// Moves what lies behind a level, or around its end.
    private func move(_ level: Level, by distance: Int) {
        func move(_ other: inout Level) {
            guard other.id != level.id else { return }
            if other.start >= level.end {
                other.start += distance
                other.key += distance
                other.end += distance
            } else if other.start < level.start, other.end >= level.end {
                other.end += distance
            }
        }
        move(&current)
        for index in outer.indices { move(&outer[index]) }
        for index in closed.indices { move(&closed[index]) }
    }
}
