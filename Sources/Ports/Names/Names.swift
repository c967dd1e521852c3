import CRunLoopShims
import Glibc
import RunLoops

// The names in a registry directory: whose they are, claiming them and giving them up.

extension PortDirectory {
    private static let largestEntry = 8192

    private static func file(_ name: String) -> String { "\(names)/\(name)" }

    private static func file(_ name: String, of port: PortID) -> String { "\(names)/\(name)/\(port.file)" }

    // MARK: Changing

    /// Gives the name to a port of ours, unless somebody alive has it.
    func give(_ name: String, to port: MachPort) throws(PortError) {
        let file = try NameEntry.fileName(for: name)
        try open()
        let entry = NameEntry(name: name, right: port.wireRight(path: try port.exposeAnew()))
        try changing.withLock { _ throws(PortError) in
            try claim(entry, file)
            own.withLock { $0.names[file] = entry }
        }
        port.tookName(name, in: self)
        guardNames()
    }

    /// The directory was removed, and another has its path now: there our ports get their names again.
    func moveNames(to other: PortDirectory) {
        let names = changing.withLock { _ in
            own.withLock { own in
                defer { own.names = [:] }
                return own.names
            }
        }
        for (file, entry) in names {
            try? giveUp(entry.right.id, file)
            guard let port = PortProcess.current.port(entry.right.id.number) else { continue }
            do throws(PortError) {
                try other.give(entry.name, to: port)
            } catch {
                log.error("\(path) was removed and made again; nobody can find “\(entry.name)” there: \(error)")
            }
        }
        guardNames()
    }

    /// Takes the name back from a port of ours.
    func unregister(_ name: String, from port: PortID) throws(PortError) {
        let file = try NameEntry.fileName(for: name)
        try changing.withLock { _ throws(PortError) in
            own.withLock { own in
                if own.names[file]?.right.id == port { own.names[file] = nil }
            }
            try giveUp(port, file)
        }
        guardNames()
    }

    /// Takes the name back from an invalid port of ours. What the file system refuses is tried again until it works: the
    /// name is free, but others see the entry.
    func abandon(_ name: String, of port: PortID) {
        do throws(PortError) {
            try unregister(name, from: port)
        } catch {
            log.warning("the name “\(name)” could not be given up, which is tried again: \(error)")
            let timer = ThreadRunLoop.Timer(after: .seconds(1), repeats: true) { [weak self] timer in
                if self.map({ (try? $0.unregister(name, from: port)) != nil }) ?? true { timer.invalidate() }
            }
            _ = try? PortProcess.current.housekeepingLoop().add(timer)
        }
    }

    /// A dead owner's entry is in nobody's way any more.
    func removeDead(_ entry: NameEntry) {
        if let file = try? NameEntry.fileName(for: entry.name),
            entry.right.id.incarnation != PortProcess.current.incarnation,
            !isAlive(entry, file)
        {
            _ = remove(entry.right.id, file)
        }
    }

    /// - Returns: The name, if there was an entry.
    func removeDead(_ port: PortID, _ file: String) -> String? {
        do throws(PortError) {
            let entry = try readEntry(Self.file(file, of: port))
            return remove(port, file) ? entry?.name : nil
        } catch {
            return nil
        }
    }

    /// Whether the port that has a name is there: one that could not give it up is not.
    private func isAlive(_ entry: NameEntry, _ file: String) -> Bool {
        let id = entry.right.id
        guard id.incarnation != PortProcess.current.incarnation else {
            return own.withLock { $0.names[file]?.right.id == id }
        }
        // Its socket is closed with it. That of one whose home is another directory may be out of sight.
        return isAlive(id.incarnation)
            && (entry.right.path != path
                || LocalSocket.hasListener(path("\(id.incarnation)/\(id.number)"), kind: .stream))
    }

    func claim(_ entry: NameEntry, _ file: String) throws(PortError) {
        var isPrepared = false
        defer { if isPrepared { discardPrepared(entry, file) } }
        while true {
            if let present = try read(file) {
                if present.right.id == entry.right.id { return isPrepared = false }
                if isAlive(present, file) { throw .nameInUse(present.name, pid: present.pid) }
                guard remove(present.right.id, file) else {
                    throw .directory(path(Self.file(file)), call: "unlink", errno: errno)
                }
            }
            if !isPrepared { try prepare(entry, file) }
            isPrepared = true
            if folder.rename(Self.ownFile("new"), to: Self.file(file)) { return isPrepared = false }
            switch errno {
            case ENOTEMPTY, EEXIST: continue
            case ENOENT where folder.makeFolder(Self.names): isPrepared = false
            case let error: throw .directory(path(Self.file(file)), call: "rename", errno: error)
            }
        }
    }

    /// Makes the name's folder, to be moved to its place.
    private func prepare(_ entry: NameEntry, _ file: String) throws(PortError) {
        let index = Self.ownFile("\(entry.right.id.number).\(file)")
        let new = Self.ownFile("new")
        do throws(PortError) {
            try write([], to: index)
            guard folder.makeFolder(new) else { throw .directory(path(new), call: "mkdir", errno: errno) }
            try write(entry.bytes, to: "\(new)/\(entry.right.id.file)")
        } catch {
            discardPrepared(entry, file)
            throw error
        }
    }

    private func discardPrepared(_ entry: NameEntry, _ file: String) {
        _ = folder.remove(Self.ownFile("new/\(entry.right.id.file)"))
        _ = folder.removeFolder(Self.ownFile("new"))
        _ = folder.remove(Self.ownFile("\(entry.right.id.number).\(file)"))
    }

    private func write(_ bytes: [UInt8], to file: String) throws(PortError) {
        let descriptor = folder.open(file, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw .directory(path(file), call: "open", errno: errno) }
        let written = bytes.isEmpty ? 0 : Glibc.write(descriptor, bytes, bytes.count)
        let error = written < 0 ? errno : ENOSPC
        close(descriptor)
        guard written == bytes.count else { throw .directory(path(file), call: "write", errno: error) }
    }

    /// A port of ours has the name no more.
    func giveUp(_ port: PortID, _ file: String) throws(PortError) {
        guard remove(port, file) else {
            throw .directory(path(Self.file(file, of: port)), call: "unlink", errno: errno)
        }
        _ = folder.remove(Self.ownFile("\(port.number).\(file)"))
    }

    /// Removes a port's entry, and no other's, and the name's folder if it is empty.
    ///
    /// - Returns: Whether the entry is not there any more; else an `errno`.
    private func remove(_ port: PortID, _ file: String) -> Bool {
        guard folder.remove(Self.file(file, of: port)) || errno == ENOENT || errno == ENOTDIR else { return false }
        _ = folder.removeFolder(Self.file(file))
        return true
    }

    // MARK: Reading

    /// What is registered under a name, by whomever.
    func entry(_ name: String) throws(PortError) -> NameEntry? {
        let file = try NameEntry.fileName(for: name)
        let found = try read(file)
        return found?.name == name ? found : nil
    }

    /// Every name there is, those of dead owners too.
    func entries() -> [NameEntry] { folder.files(in: Self.names).compactMap { try? read($0) } }

    /// The entries of those that are alive.
    func liveEntries() -> [NameEntry] {
        var isAlive: [Incarnation: Bool] = [:]
        return entries().filter { entry in
            let owner = entry.right.id.incarnation
            let isOwnerAlive = isAlive[owner] ?? self.isAlive(owner)
            isAlive[owner] = isOwnerAlive
            return isOwnerAlive
        }
    }

    /// The entry in a name's folder.
    func read(_ file: String) throws(PortError) -> NameEntry? {
        let file = Self.file(file)
        let descriptor = folder.open(file, O_RDONLY | O_DIRECTORY)
        guard descriptor >= 0 else {
            switch errno {
            case ENOENT: return nil
            case ENOTDIR, ELOOP:
                throw .untrustedDirectory(path(file), reason: "it is not a name's folder; remove it")
            case let error: throw .directory(path(file), call: "open", errno: error)
            }
        }
        guard let inner = Folder.files(descriptor).first else { return nil }
        return try readEntry("\(file)/\(inner)")
    }

    private func readEntry(_ file: String) throws(PortError) -> NameEntry? {
        let path = path(file)
        // A link or a FIFO planted here must neither be followed nor block.
        let descriptor = folder.open(file, O_RDONLY | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw .directory(path, call: "open", errno: errno)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_uid == geteuid() else {
            log.warning(
                once: path, "\(path) belongs to user \(status.st_uid); it is not read")
            throw .untrustedDirectory(path, reason: "it belongs to user \(status.st_uid); remove it")
        }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= Self.largestEntry
        else { throw .untrustedDirectory(path, reason: "it is not an entry that this user's programs have written") }
        let bytes = [UInt8](unsafeUninitializedCapacity: Self.largestEntry) { buffer, count in
            count = max(Glibc.read(descriptor, buffer.baseAddress, buffer.count), 0)
        }
        var entry = try NameEntry(bytes, path: path)
        // Whoever removes it goes by its name.
        guard path.hasSuffix("/\(entry.right.id.file)") else {
            throw .untrustedDirectory(path, reason: "it is another port's entry; remove it")
        }
        entry.since = status.st_mtim.tv_sec
        return entry
    }
}

extension PortID {
    /// The file that the entry of a name of the port's is in.
    var file: String { "\(incarnation).\(number)" }
}
