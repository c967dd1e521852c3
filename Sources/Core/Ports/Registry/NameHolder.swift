import Glibc

// The port that has a name. Its entry keeps the name from others as long as the port lives, wherever that is.

extension RegistryDirectory {
    /// Whether the port of an entry is valid, here or elsewhere. An invalid port may have failed to give its name up.
    func isAlive(_ entry: NameEntry, _ file: String) -> Bool {
        let id = entry.right.id
        guard id.incarnation != registry.incarnation else {
            // This process may have left the entry to another one.
            return own.withLock { $0.names[file]?.right.id == id } || isKept(entry, Self.file(file))
        }
        guard isAlive(id.incarnation) else { return isKept(entry, Self.file(file)) }
        // The socket of a port in another directory may be out of reach.
        if entry.right.path != path { return true }
        // The socket may have been hidden, and shown again, meanwhile.
        return isOpen(id) || livesElsewhere(entry) || isOpen(id)
    }

    /// Whether a port that goes on elsewhere is about to take the name of an entry that its process has left. Until then, the
    /// entry keeps the name from others. A later sweep removes it.
    /// - Parameter path: The folder of the name.
    func isKept(_ entry: NameEntry, _ path: String) -> Bool {
        let id = entry.right.id
        do throws(PortError) {
            // A former home may have an entry still, and is about to give it up.
            guard let home = try homeElsewhere(of: entry) else { return false }
            return home == id || !folder.hasFile("\(path)/\(home.file)")
        } catch {
            return error.isShortage
        }
    }

    /// Whether the entry that a port has left here keeps the name from others.
    func isKept(_ name: String, of port: PortID) -> Bool {
        guard let file = try? NameEntry.fileName(for: name) else { return false }
        do throws(PortError) {
            return try readEntry(Self.file(file, of: port)).map { isKept($0, Self.file(file)) } ?? false
        } catch {
            return error.isShortage
        }
    }

    private func livesElsewhere(_ entry: NameEntry) -> Bool {
        do throws(PortError) { return try homeElsewhere(of: entry) != nil } catch { return error.isShortage }
    }

    /// The home of a port that lives elsewhere than its entry says; nil when it does not.
    private func homeElsewhere(of entry: NameEntry) throws(PortError) -> PortID? {
        let homes = try homes(of: entry)
        // This directory may have the other one's path in another mount namespace.
        for directory in homes === self ? [self] : [self, homes] {
            if try directory.livesElsewhere(entry.publicID, than: entry.right.id) {
                return try directory.home(of: entry.publicID) ?? entry.publicID
            }
        }
        return nil
    }

    /// Whether the entry's port goes on without this process, which ends.
    func outlivesThisProcess(_ entry: NameEntry) -> Bool {
        do throws(PortError) {
            let homes = try homes(of: entry)
            if try (homes.home(of: entry.publicID) ?? entry.publicID) == entry.right.id {
                try homes.endMoves(of: entry.publicID)
            }
            return try homes.livesElsewhere(entry.publicID, than: entry.right.id)
        } catch {
            return error.isShortage
        }
    }

    /// The directory of the socket of an entry's port, which says where the port lives.
    func homes(of entry: NameEntry) throws(PortError) -> RegistryDirectory {
        try entry.right.path == path ? self : registry.existingDirectory(entry.right.path) ?? self
    }

    /// The entry of a live port with another identity. Removes those of dead ports.
    func liveEntry(ofOtherThan port: PortID, _ file: String) throws(PortError) -> NameEntry? {
        guard let files = folder.files(in: Self.file(file)) else {
            if errno == ENOENT { return nil }
            throw failure("open", Self.file(file))
        }
        for inner in files {
            guard let entry = try readEntry("\(Self.file(file))/\(inner)"), entry.publicID != port else { continue }
            if isAlive(entry, file) { return entry }
            _ = remove(entry.right.id, file)
        }
        return nil
    }
}
