/// A container behind which something was written, while its value is still being encoded. Later entries go into a part
/// of their own, so no byte moves before the value is whole.
struct LeftContainer {
    let level: CBORWriter.Level
    /// The part that has the container; -1 for none.
    let part: Int
    /// The offset behind all of it.
    let end: Int
    /// The number of arrays and maps around its items.
    let depth: Int
    /// The part that has the later entries.
    var latePart: Int?

    /// The offset behind the bytes that stay when there is a late part. The late part has the break, and all of a byte
    /// string.
    var keptEnd: Int {
        switch level.kind {
        case .array, .map: level.count > CBORByte.largestShort ? end - 1 : end
        case .bytes: level.start + 1
        case .slot, .scalar: end
        }
    }
}

/// The later entries of a ``LeftContainer``. The first byte, with the kind and the length, takes the place of the
/// container's first byte, and the others come behind its last item.
struct LatePart {
    var bytes: [UInt8]
    var level: CBORWriter.Level
    var outer: [CBORWriter.Level] = []
    var depth: Int
}

extension CBORWriter {
    /// Lets `body` write at the end of a level that is not the innermost one.
    func write(into id: Int, _ body: () throws -> Void) throws {
        // Only levels of the innermost value: one of another value could be in bytes that are out of reach.
        if id >= valueID, leaveLevels(inside: id) { return try body() }
        guard id >= valueID, let index = left.index(of: id) else {
            throw error("", "a container was used while its value was not the one being encoded")
        }
        guard left[index].level.kind != .scalar else { throw error("", Self.otherKind) }
        let late = left[index].latePart ?? makePart(for: index)
        let around = part
        swapState(with: late)
        part = late
        defer {
            _ = leaveLevels(inside: id)
            swapState(with: late)
            part = around
        }
        try body()
    }

    /// The number of entries of a level.
    func count(of id: Int) -> Int {
        if current.id == id { return current.count }
        if let level = outer.last(where: { $0.id == id }) { return level.count }
        guard let index = left.index(of: id) else { return 0 }
        return left[index].latePart.map { parts[$0].level.count } ?? left[index].level.count
    }

    /// Closes the levels inside an open one, which may get more entries. Returns false if the level is not open.
    private func leaveLevels(inside id: Int) -> Bool {
        if current.id == id { return true }
        guard let index = outer.lastIndex(where: { $0.id == id }) else { return false }
        while outer.count > index {
            let (level, depth) = (current, depth)
            popLevel()
            left.insert(
                LeftContainer(level: level, part: part, end: bytes.count, depth: depth),
                at: left.firstIndex(notBelow: level.id))
        }
        return true
    }

    private func makePart(for index: Int) -> Int {
        let container = left[index]
        var level = container.level
        (level.start, level.key) = (0, 0)
        var first: [UInt8] = []
        switch level.kind {
        case .array: first = [CBORMajor.array.byte(0)]
        case .map: first = [CBORMajor.map.byte(0)]
        // The bytes may have to become an array.
        case .bytes: first = Array(bytes[container.level.start..<container.end])
        case .slot, .scalar: break
        }
        left[index].latePart = parts.count
        parts.append(LatePart(bytes: first, level: level, depth: container.depth))
        return parts.count - 1
    }

    private func swapState(with part: Int) {
        swap(&bytes, &parts[part].bytes)
        swap(&current, &parts[part].level)
        swap(&outer, &parts[part].outer)
        swap(&depth, &parts[part].depth)
    }

    /// Puts the late parts into the containers of the innermost value, which is whole.
    func joinParts() {
        let containers = left[left.firstIndex(notBelow: valueID)...].filter { $0.latePart != nil }.sorted {
            // Of containers that end together, the inner one is first.
            ($0.part, $0.end, $1.level.start) < ($1.part, $1.end, $0.level.start)
        }
        for container in containers {
            guard let late = container.latePart else { continue }
            swapState(with: late)
            closeCurrent()
            swapState(with: late)
        }
        // A part comes behind the one that has its container.
        var rest = containers[...]
        while let host = rest.last?.part {
            let first = rest.lastIndex { $0.part != host }.map { $0 + 1 } ?? 0
            if host == part {
                join(rest[first...])
            } else {
                swapState(with: host)
                join(rest[first...])
                swapState(with: host)
            }
            rest = rest[..<first]
        }
        dropParts()
    }

    /// Forgets the containers of the innermost value.
    func dropParts() {
        left.removeLast(left.count - left.firstIndex(notBelow: valueID))
        while let last = parts.last, last.level.id >= valueID { parts.removeLast() }
    }

    /// Puts the late parts of containers, in the order of their ends, into the bytes.
    private func join(_ containers: ArraySlice<LeftContainer>) {
        guard let begin = containers.first?.keptEnd else { return }
        var (joined, offset) = ([] as [UInt8], begin)
        for container in containers {
            guard let late = container.latePart else { continue }
            bytes[container.level.start] = parts[late].bytes[0]
        }
        for container in containers {
            guard let late = container.latePart else { continue }
            joined += bytes[offset..<container.keptEnd]
            joined += parts[late].bytes.dropFirst()
            offset = container.end
        }
        joined += bytes[offset...]
        bytes.replaceSubrange(begin..., with: joined)
    }
}

/// In the order of their ids.
extension [LeftContainer] {
    fileprivate func index(of id: Int) -> Int? {
        let index = firstIndex(notBelow: id)
        return index < count && self[index].level.id == id ? index : nil
    }

    fileprivate func firstIndex(notBelow id: Int) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].level.id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
