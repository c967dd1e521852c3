import Glibc
import RunLoops

// Claiming names, taking over those of dead owners, and giving names up.

extension RegistryDirectory {
    /// Gives the name to a port of this runtime, unless a live port has it.
    /// - Throws: ``PortError``: `nameInUse`, `badName`, `isInvalid`, `unavailable` for a port that is being handed over, or an
    ///   error of the directory.
    /// - Returns: False when the directory is at its path no more, and nobody would find the name.
    func give(_ name: String, to port: any RegisteredPort, isService: Bool = true) throws(PortError) -> Bool {
        let file = try NameEntry.fileName(for: name)
        try open()
        let entry = try NameEntry(name, of: port, isService: isService)
        let isHere = try changing.withLock { _ throws(PortError) in
            try claim(entry, file)
            guard isCurrent(at: path) else {
                try? giveUp(entry.right.id, file)
                return false
            }
            own.withLock { $0.names[file] = entry }
            return true
        }
        guard isHere else { return false }
        guard port.took(entry, in: self, hasCome: false) else {
            abandon(name, of: port.id)
            throw .unavailable(reason: Self.isHandedOver)
        }
        watchOwnEntries()
        return true
    }

    static let isHandedOver = "the port is being handed over to another process"

    /// Exposes this runtime's ports, and registers their names, in the directory that has this one's path now.
    /// - Returns: False when that one is at its path no more. Then the names stay here.
    func move(to other: RegistryDirectory) -> Bool {
        exposePorts()
        let names: [String: NameEntry]? = changing.withLock { _ in
            // This one may be at its path again.
            if isCurrent(at: path) { return [:] }
            return other.isCurrent(at: other.path) ? own.withLock { exchange(&$0.names, with: [:]) } : nil
        }
        guard let names else { return false }
        for (file, entry) in names {
            try? giveUp(entry.right.id, file)
            guard let port = registry.findPort(entry.right.id.number) else { continue }
            let isFree = other.own.withLock { own in
                if own.names[file] == nil { own.names[file] = entry }
                return own.names[file] == entry
            }
            guard isFree else { continue }
            guard port.took(entry, in: other, hasCome: false) else {
                other.own.withLock { if $0.names[file] == entry { $0.names[file] = nil } }
                continue
            }
            other.renew(file, entry.name)
        }
        watchOwnEntries()
        other.watchOwnEntries()
        return true
    }

    /// Renews the entries of this runtime's ports, whose sockets have other paths now, or were missing for a while. An
    /// entry says where the socket is.
    func renewNames() {
        exposePorts()
        for (file, entry) in own.withLock({ $0.names }) { renew(file, entry.name) }
        watchOwnEntries()
    }

    /// Renews the entry of a port, now or later. The port keeps the name also when the directory refuses the entry.
    private func renew(_ file: String, _ name: String) {
        insist("nobody can find “\(name)” in \(path) any more") { if $0.isCurrent(at: $0.path) { try $0.renew(file) } }
    }

    /// Renews the entry of a port.
    /// - Parameters:
    ///   - file: The folder of the name's entry.
    ///   - isNeeded: Called while no thread of this process changes a name.
    /// - Returns: Whether the entry was written; false also when the port has given the name up.
    @discardableResult
    func renew(
        _ file: String, where isNeeded: (NameEntry) throws(PortError) -> Bool = { _ in true }
    ) throws(PortError) -> Bool {
        guard let entry = own.withLock({ $0.names[file] }), let port = registry.findPort(entry.right.id.number) else {
            return false
        }
        try open()
        let renewed = try NameEntry(entry.name, of: port, isService: entry.isService)
        return try changing.withLock { _ throws(PortError) in
            guard own.withLock({ $0.names[file] }) == entry, try isNeeded(entry) else { return false }
            own.withLock { $0.names[file] = renewed }
            try enter(renewed, file)
            return true
        }
    }

    /// Binds this runtime's ports to sockets at the current paths of their directories.
    private func exposePorts() {
        for number in own.withLock({ $0.sockets }).compactMap({ UInt64($0) }) {
            do throws(PortError) {
                _ = try registry.findPort(number)?.exposedRight()
            } catch {
                log.warning("other processes can't connect to port \(number) any more: \(error)")
            }
        }
    }

    /// Gives a name to a port of this runtime that has come with the name from another process. The former entry stays
    /// until its owner, or a sweep, removes it, so that the name is always found.
    /// - Parameter isWanted: Called while no thread of this process changes a name. False when the port has given the name
    ///   up; then nothing happens.
    /// - Throws: ``PortError``: `nameInUse` when another port has the name by now, or an error of the directory.
    /// - Returns: False when the directory is at its path no more, and nobody would find the name.
    func take(
        _ name: String, with port: any RegisteredPort, isService: Bool, where isWanted: () -> Bool = { true }
    ) throws(PortError) -> Bool {
        let file = try NameEntry.fileName(for: name)
        try open()
        let entry = try NameEntry(name, of: port, isService: isService)
        let isHere: Bool? = try changing.withLock { _ throws(PortError) in
            guard isWanted() else { return nil }
            if let held = own.withLock({ $0.names[file] }), held.publicID != port.publicID {
                throw .nameInUse(name, by: held.port)
            }
            do throws(PortError) { try enter(entry, file) } catch {
                try? giveUp(entry.right.id, file)
                throw error
            }
            guard isCurrent(at: path) else {
                try? giveUp(entry.right.id, file)
                return false
            }
            own.withLock { $0.names[file] = entry }
            return true
        }
        guard let isHere else { return true }
        guard isHere else { return false }
        guard port.took(entry, in: self, hasCome: true) else {
            abandon(name, of: port.id)
            throw .unavailable(reason: Self.isHandedOver)
        }
        // The port may have given the name up before it knew that it had it.
        if !isWanted() { port.gaveUpName(name, in: self) }
        watchOwnEntries()
        return true
    }

    /// Removes the entries that a port of this runtime has left at its former homes.
    /// - Parameter ofDead: Whether to leave those of live processes when the port has gone on, because they may be its next
    ///   homes by now.
    func removeFormerEntries(_ name: String, of port: any RegisteredPort, ofDead: Bool = false) {
        guard let file = try? NameEntry.fileName(for: name) else { return }
        for inner in folder.files(in: Self.file(file)) ?? [] {
            guard let entry = try? readEntry("\(Self.file(file))/\(inner)"), entry.publicID == port.publicID,
                entry.right.id != port.id,
                // Read after the entry: a next home has its entry after the port.
                !ofDead || !isAlive(entry.right.id.incarnation) || (try? home(of: port.publicID)) == port.id
            else { continue }
            try? giveUp(entry.right.id, file)
        }
    }

    /// The entries of the names that a port has here at a home, also when the process there has died.
    func entries(of port: PortID, at home: PortID) -> [NameEntry] {
        let start = "\(home.number)."
        let marks = (folder.files(in: "\(home.incarnation)") ?? []).filter { $0.hasPrefix(start) }
        return marks.compactMap { mark in
            try? readEntry(Self.file(String(mark.dropFirst(start.utf8.count)), of: home))
        }.filter { $0.publicID == port }
    }

    func unregister(_ name: String, from port: PortID) throws(PortError) {
        let file = try NameEntry.fileName(for: name)
        try changing.withLock { _ throws(PortError) in
            forget(file, of: port)
            try giveUp(port, file)
        }
        watchOwnEntries()
    }

    /// Leaves the entry of a port's name to another process.
    func leave(_ name: String, of port: PortID) {
        guard let file = try? NameEntry.fileName(for: name) else { return }
        changing.withLock { _ in forget(file, of: port) }
        watchOwnEntries()
    }

    private func forget(_ file: String, of port: PortID) {
        own.withLock { if $0.names[file]?.right.id == port { $0.names[file] = nil } }
    }

    /// Takes the name back from an invalid port. The name is free at once, even if its entry stays for a while.
    func abandon(_ name: String, of port: PortID) {
        insist("the name “\(name)” could not be given up") { try $0.unregister(name, from: port) }
    }

    /// Calls the closure now, and then once a second, until it throws no error. Logs the first error.
    private func insist(_ problem: String, _ body: @escaping @Sendable (RegistryDirectory) throws -> Void) {
        do {
            try body(self)
        } catch {
            log.error("\(problem), and the library tries again: \(error)")
            let timer = ThreadRunLoop.Timer(after: .seconds(1), repeats: true) { [weak self] timer in
                if self.map({ (try? body($0)) != nil }) ?? true { timer.invalidate() }
            }
            try? registry.housekeeping.add(timer)
        }
    }

    func removeDead(_ entry: NameEntry) {
        guard entry.right.id.incarnation != registry.incarnation, let file = try? NameEntry.fileName(for: entry.name)
        else { return }
        if !isAlive(entry, file) { _ = remove(entry.right.id, file) }
    }

    /// Gives the name to the entry's port, in place of a dead port that has it.
    private func claim(_ entry: NameEntry, _ file: String) throws(PortError) {
        var isPrepared = false
        defer { if isPrepared { discardPrepared(entry, file) } }
        // Another process may claim the name after the dead entry was removed and before the rename. Then the rename
        // fails, and the next attempt reads that process's entry. A race between processes ends after few attempts. If
        // all fail, the file in the name's folder is no entry.
        for _ in 0..<100 {
            if let present = try read(file) {
                if present.right.id == entry.right.id { return }
                if present.publicID == entry.publicID {
                    // The port may have left the entry at a former home. Or it has moved on, and has the name elsewhere.
                    let home = try homes(of: entry).home(of: entry.publicID)
                    if home != nil, home != entry.right.id { throw .unavailable(reason: Self.isHandedOver) }
                } else if isAlive(present, file) {
                    throw .nameInUse(present.name, by: present.port)
                }
                guard remove(present.right.id, file) else { throw failure("unlink", Self.file(file)) }
            }
            if !isPrepared {
                isPrepared = true
                try prepare(entry, file)
            }
            if folder.rename(ownFile("new"), to: Self.file(file)) { return isPrepared = false }
            switch errno {
            case ENOTEMPTY, EEXIST, ENOTDIR: continue
            case ENOENT where folder.makeFolder(Self.names): isPrepared = false
            default: throw failure("rename", Self.file(file))
            }
        }
        throw .untrustedDirectory(path(Self.file(file)), reason: "it has a file that is not an entry; remove it")
    }

    /// Writes the entry over the port's own one, or beside those of its former homes, so that nobody finds the name free
    /// meanwhile. Claims the name when it has no entry.
    private func enter(_ entry: NameEntry, _ file: String) throws(PortError) {
        // Nobody must find two entries of different ports, not for a moment either.
        try checkIsFree(entry, file)
        // Also what a failed write leaves, which would go to the next name's folder.
        defer { discardPrepared(entry, file) }
        try prepare(entry, file)
        guard folder.rename(ownFile("new/\(entry.right.id.file)"), to: Self.file(file, of: entry.right.id)) else {
            guard errno == ENOENT else { throw failure("rename", Self.file(file)) }
            return try claim(entry, file)
        }
        do throws(PortError) { try checkIsFree(entry, file) } catch {
            if case .nameInUse = error { try? giveUp(entry.right.id, file) }
            throw error
        }
    }

    /// Throws when another port has claimed the name, because somebody has removed the entry.
    private func checkIsFree(_ entry: NameEntry, _ file: String) throws(PortError) {
        if let other = try liveEntry(ofOtherThan: entry.publicID, file) { throw .nameInUse(other.name, by: other.port) }
    }

    /// Makes the name's folder, which the claim moves to its place.
    private func prepare(_ entry: NameEntry, _ file: String) throws(PortError) {
        try write([], to: ownFile("\(entry.right.id.number).\(file)"))
        guard folder.makeFolder(ownFile("new")) else { throw failure("mkdir", ownFile("new")) }
        try write(entry.bytes, to: ownFile("new/\(entry.right.id.file)"))
    }

    private func discardPrepared(_ entry: NameEntry, _ file: String) {
        _ = folder.remove(ownFile("new/\(entry.right.id.file)"))
        _ = folder.removeFolder(ownFile("new"))
        guard !folder.hasFile(Self.file(file, of: entry.right.id)) else { return }
        _ = folder.remove(ownFile("\(entry.right.id.number).\(file)"))
    }

    func write(_ bytes: [UInt8], to file: String) throws(PortError) {
        let descriptor = folder.open(file, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw failure("open", file) }
        defer { close(descriptor) }
        // The umask may have taken rights away.
        fchmod(descriptor, 0o600)
        // A write beyond the limit on the size of files would raise SIGXFSZ.
        errno = bytes.count > rlimit(of: RLIMIT_FSIZE).rlim_cur ? EFBIG : 0
        if errno == 0, Glibc.write(descriptor, bytes, bytes.count) == bytes.count { return }
        throw .directory(path(file), call: "write", errno: errno == 0 ? ENOSPC : errno)
    }

    func giveUp(_ port: PortID, _ file: String) throws(PortError) {
        guard remove(port, file) else { throw failure("unlink", Self.file(file, of: port)) }
        _ = folder.remove("\(port.incarnation)/\(port.number).\(file)")
    }

    /// Removes a port's entry, and the name's folder if it is empty then. Entries of other ports stay.
    /// - Returns: False, with an `errno`, when the entry is still there.
    func remove(_ port: PortID, _ file: String) -> Bool {
        guard folder.remove(Self.file(file, of: port)) || errno == ENOENT || errno == ENOTDIR else { return false }
        _ = folder.removeFolder(Self.file(file))
        return true
    }
}
