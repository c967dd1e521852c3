import Glibc

/// A file, a folder or a socket of the simulated file system.
final class Node {
    enum Kind { case folder, file, socket }

    let kind: Kind
    let number: UInt64
    var mode: UInt32
    var children: [String: Node] = [:]
    var bytes: [UInt8] = []
    /// In seconds.
    var time = 0
    var isRemoved = false
    var socket: SocketFile?
    fileprivate(set) var watches: [(watch: Int32, mask: UInt32, by: InotifyFile)] = []

    init(_ kind: Kind, number: UInt64, mode: UInt32) { (self.kind, self.number, self.mode) = (kind, number, mode) }

    func tell(_ event: UInt32, _ name: String = "", cookie: UInt32 = 0) {
        for (watch, mask, file) in watches where mask & event != 0 && !file.isClosed {
            file.append(watch, event, name, cookie)
        }
    }
}

/// A folder or a file that is open.
final class NodeFile: OpenFile {
    let node: Node
    private var names: [String]?
    private var offset = 0

    init(_ node: Node, names: [String]? = nil) { (self.node, self.names) = (node, names) }

    func name(_ index: Int) -> String? {
        let all = names ?? node.children.keys.sorted()
        names = all
        return index < all.count ? all[index] : nil
    }

    func read(_ count: Int) -> [UInt8] {
        let part = Array(node.bytes.dropFirst(offset).prefix(count))
        offset += part.count
        return part
    }

    func write(_ bytes: UnsafeRawBufferPointer) {
        node.bytes += bytes
        offset += bytes.count
        node.tell(UInt32(IN_MODIFY))
    }
}

/// An inotify instance.
final class InotifyFile: OpenFile {
    private var events: [[UInt8]] = []
    private var last: Int32 = 0

    func add(_ node: Node, _ mask: UInt32) -> Int32 {
        last += 1
        node.watches.append((last, mask, self))
        return last
    }

    fileprivate func append(_ watch: Int32, _ mask: UInt32, _ name: String, _ cookie: UInt32) {
        let padded = name.isEmpty ? [] : Array(name.utf8) + [UInt8](repeating: 0, count: 16 - name.utf8.count % 16)
        var bytes: [UInt8] = []
        for number in [UInt32(bitPattern: watch), mask, cookie, UInt32(padded.count)] {
            withUnsafeBytes(of: number) { bytes += $0 }
        }
        events.append(bytes + padded)
        noteChange()
    }

    func read(_ most: Int) -> [UInt8]? {
        guard !events.isEmpty else { return nil }
        var bytes: [UInt8] = []
        while let next = events.first, bytes.count + next.count <= most {
            bytes += next
            events.removeFirst()
        }
        return bytes
    }

    override var readiness: UInt32 { events.isEmpty ? 0 : Ready.readable }
}

/// The files below `/sim`, and the files in `/proc` of the simulated processes.
final class FileSystem {
    private var lastNumber: UInt64 = 1
    private let root: Node
    private var lastCookie: UInt32 = 0

    init() {
        root = Node(.folder, number: 1, mode: 0o755)
        root.children["sim"] = make(.folder, 0o755)
    }

    func make(_ kind: Node.Kind, _ mode: UInt32) -> Node {
        lastNumber += 1
        return Node(kind, number: lastNumber, mode: mode)
    }

    enum Place {
        case node(Node)
        /// Nothing is there, but the folder.
        case free(in: Node, name: String)
        case failure(Int32)
    }

    /// - Parameter folder: Where a relative path begins.
    func find(_ path: String, from folder: Node?) -> (place: Place, parent: Node?, name: String) {
        var node = path.hasPrefix("/") ? root : folder ?? root
        var parts = Self.parts(path)
        var parent: Node? = nil
        var name = ""
        // `/proc/self/fd/N/…` leads into the folder behind the descriptor.
        if parts.count > 3, parts[0] == "proc", parts[1] == "self", parts[2] == "fd" {
            guard let number = Int32(parts[3]),
                let file = machine.current.process.descriptors[number] as? NodeFile
            else { return (.failure(-ENOENT), nil, "") }
            node = file.node
            parts.removeFirst(4)
        }
        for (index, part) in parts.enumerated() where part != "." {
            guard node.kind == .folder else { return (.failure(-ENOTDIR), nil, "") }
            (parent, name) = (node, part)
            guard let next = node.children[part] else {
                let isLast = index == parts.count - 1
                if !isLast { return (.failure(-ENOENT), nil, "") }
                return (node.isRemoved ? .failure(-ENOENT) : .free(in: node, name: part), node, part)
            }
            node = next
        }
        return (.node(node), parent, name)
    }

    /// By bytes: characters would take most of a machine's time.
    private static func parts(_ path: String) -> [String] {
        path.utf8.split(separator: UInt8(ascii: "/")).map { String(Substring($0)) }
    }

    func exists(_ path: String) -> Bool {
        if case .node = find(path, from: nil).place { true } else { false }
    }

    func add(_ node: Node, to folder: Node, _ name: String) {
        folder.children[name] = node
        node.time = Int((machine.now + machine.wallClock) / 1_000_000_000)
        folder.tell(UInt32(IN_CREATE) | (node.kind == .folder ? UInt32(IN_ISDIR) : 0), name)
    }

    /// Adds a node at a path where nothing is, in a folder that is there.
    func add(_ node: Node, at path: String) {
        if case .free(let folder, let name) = find(path, from: nil).place { add(node, to: folder, name) }
    }

    func remove(_ path: String, from folder: Node?, isFolder: Bool) -> Int32 {
        let (place, parent, name) = find(path, from: folder)
        switch place {
        case .failure(let error): return error
        case .free: return -ENOENT
        case .node(let node):
            guard let parent else { return -EBUSY }
            if isFolder, node.kind != .folder { return -ENOTDIR }
            if !isFolder, node.kind == .folder { return -EISDIR }
            if isFolder, !node.children.isEmpty { return -ENOTEMPTY }
            parent.children[name] = nil
            node.isRemoved = true
            parent.tell(UInt32(IN_DELETE) | (isFolder ? UInt32(IN_ISDIR) : 0), name)
            node.tell(UInt32(IN_DELETE_SELF))
            return 0
        }
    }

    /// Removes a folder with all that is in it.
    func removeAll(_ path: String) {
        guard case .node(let node) = find(path, from: nil).place else { return }
        for name in node.children.keys.sorted() { removeAll("\(path)/\(name)") }
        _ = remove(path, from: nil, isFolder: node.kind == .folder)
    }

    func rename(_ path: String, _ folder: Node?, to: String, _ toFolder: Node?) -> Int32 {
        let (source, parent, name) = find(path, from: folder)
        let (target, toParent, toName) = find(to, from: toFolder)
        guard case .node(let node) = source, let parent else {
            if case .failure(let error) = source { return error }
            return -ENOENT
        }
        switch target {
        case .failure(let error): return error
        case .free: break
        case .node(let former):
            if former === node { return 0 }
            if node.kind == .folder, former.kind != .folder { return -ENOTDIR }
            if node.kind != .folder, former.kind == .folder { return -EISDIR }
            if former.kind == .folder, !former.children.isEmpty { return -ENOTEMPTY }
            former.isRemoved = true
            former.tell(UInt32(IN_DELETE_SELF))
        }
        guard let toParent, !toParent.isRemoved else { return -ENOENT }
        parent.children[name] = nil
        toParent.children[toName] = node
        lastCookie += 1
        let isFolder = node.kind == .folder ? UInt32(IN_ISDIR) : 0
        parent.tell(UInt32(IN_MOVED_FROM) | isFolder, name, cookie: lastCookie)
        toParent.tell(UInt32(IN_MOVED_TO) | isFolder, toName, cookie: lastCookie)
        node.tell(UInt32(IN_MOVE_SELF))
        return 0
    }

    /// The paths of all files below a folder, relative to it.
    func paths(below path: String) -> [String] {
        guard case .node(let node) = find(path, from: nil).place else { return [] }
        return node.children.sorted { $0.key < $1.key }.flatMap { name, _ in
            ["/\(name)"] + paths(below: "\(path)/\(name)").map { "/\(name)\($0)" }
        }
    }

    // MARK: /proc

    /// The text of a file in `/proc`; nil when there is none.
    func text(_ path: String) -> String? {
        let parts = Self.parts(path)
        guard parts.count >= 3, parts[0] == "proc" else { return nil }
        guard let process = process(parts[1]), process.state != .gone else { return nil }
        switch parts[parts.count - 1] {
        case "stat":
            let letter = process.isDead ? "Z" : process.isStopped ? "T" : "S"
            let flags = process.isDead ? 0x4 : 0x400000
            // The fields from the third to the 22nd.
            let fields = ["\(letter)", "1", "1", "1", "0", "-1", "\(flags)"] + [String](repeating: "0", count: 12)
            return "\(process.pid) (\(process.name)) "
                + (fields + ["\(process.startTime)", "0"]).joined(separator: " ")
        case "statm": return "1000 500 100 10 0 400 0\n"
        case "comm": return process.name + "\n"
        case "status": return "Name:\t\(process.name)\nNSpid:\t\(process.pid)\n"
        default: return nil
        }
    }

    func link(_ path: String) -> String? {
        let parts = Self.parts(path)
        guard parts.count >= 3, parts[0] == "proc", let process = process(parts[1]), process.state == .running else {
            return nil
        }
        switch parts[2] {
        case "exe": return "/sim/bin/\(process.name)"
        case "ns": return "mnt:[1]"
        default: return nil
        }
    }

    /// The names in a folder of `/proc`.
    func list(_ path: String) -> [String]? {
        let parts = Self.parts(path)
        guard parts.count == 3, parts[0] == "proc", let process = process(parts[1]), process.state != .gone else {
            return nil
        }
        switch parts[2] {
        case "fd": return process.descriptors.keys.sorted().map(String.init)
        case "task": return ["\(process.pid)"]
        default: return nil
        }
    }

    private func process(_ part: String) -> Process? {
        if part == "self" { return machine.current.process }
        return Int32(part).flatMap { pid in machine.processes.last { $0.pid == pid } }
    }
}
