import Glibc

extension RegistryDirectory {
    private static let largestEntry = 8192

    static func file(_ name: String) -> String { "\(names)/\(name)" }
    static func file(_ name: String, of port: PortID) -> String { "\(names)/\(name)/\(port.file)" }

    /// The entry of a name; nil when nobody has registered it. The entry's port may be dead.
    func entry(_ name: String) throws(PortError) -> NameEntry? {
        let found = try read(NameEntry.fileName(for: name))
        return found?.name == name ? found : nil
    }

    /// The entries of all names, one for each, including those of dead owners. Files that are no entries are left out.
    func entries() throws(PortError) -> [NameEntry] { try presentEntries().map(\.entry) }

    /// As ``entries()``, each with the name's folder.
    /// - Parameter files: The folders of the names to look at; nil for all.
    func presentEntries(in files: Set<String>? = nil) throws(PortError) -> [(file: String, entry: NameEntry)] {
        try folders(files).compactMap { folder in presentEntry(of: folder.entries).map { (folder.file, $0) } }
    }

    /// The entries of all names whose owners live, one for each.
    func liveEntries() throws(PortError) -> [NameEntry] { try of(entries(), areAlive: true) }

    /// All entries of dead processes, also those that ports have left at former homes.
    func deadEntries() throws(PortError) -> [NameEntry] { try of(folders().flatMap(\.entries), areAlive: false) }

    private func of(_ entries: [NameEntry], areAlive: Bool) -> [NameEntry] {
        let owners = Dictionary(grouping: entries, by: \.right.id.incarnation)
        return owners.filter { isAlive($0.key) == areAlive }.flatMap(\.value)
    }

    /// The entries in the folder of each name.
    /// - Parameter files: The folders of the names to look at; nil for all.
    /// - Throws: ``PortError`` when there may be an entry that cannot be read now.
    private func folders(_ files: Set<String>? = nil) throws(PortError) -> [(file: String, entries: [NameEntry])] {
        guard let present = present(files) else {
            if errno == ENOENT { return [] }
            throw failure("open", Self.names)
        }
        var folders: [(String, [NameEntry])] = []
        for file in present {
            do throws(PortError) {
                folders.append((file, try readAll(file)))
            } catch {
                if error.mayHideEntry { throw error }
            }
        }
        return folders
    }

    /// The folders of the names to look at. Returns nil, with an `errno`, when the folder of names cannot be opened, because
    /// each name would seem to be gone then.
    private func present(_ files: Set<String>?) -> [String]? {
        let descriptor = folder.open(Self.names, O_RDONLY | O_DIRECTORY)
        guard let files, descriptor >= 0 else { return Folder.files(descriptor) }
        close(descriptor)
        return Array(files)
    }

    /// The entry of a name; nil when nobody has registered it. The entry's port may be dead.
    func read(_ file: String) throws(PortError) -> NameEntry? { presentEntry(of: try readAll(file)) }

    /// The entry of the port's present home. A port that has moved may have left others, whose processes may have died since.
    private func presentEntry(of entries: [NameEntry]) -> NameEntry? {
        guard entries.count > 1 else { return entries.first }
        let live = entries.filter { isAlive($0.right.id.incarnation) }
        let found = live.isEmpty ? entries : live
        return found.first { entry in
            let home = (try? homes(of: entry).home(of: entry.publicID)) ?? nil
            return (home ?? entry.publicID) == entry.right.id
        } ?? found.first
    }

    /// The entries in the folder of a name.
    private func readAll(_ file: String) throws(PortError) -> [NameEntry] {
        let file = Self.file(file)
        // An entry that is removed after the folder was read is the former one of a port that has moved, and that has
        // another entry by then. A port does not move as fast as this.
        for _ in 0..<100 {
            let descriptor = folder.open(file, O_RDONLY | O_DIRECTORY)
            guard descriptor >= 0 else {
                switch errno {
                case ENOENT: return []
                case ENOTDIR, ELOOP:
                    throw .untrustedDirectory(path(file), reason: "it is not a name's folder; remove it")
                default: throw failure("open", file)
                }
            }
            guard let files = Folder.files(descriptor) else { throw failure("read", file) }
            if files.isEmpty { return [] }
            var (entries, failure) = ([NameEntry](), PortError?.none)
            for inner in files {
                do throws(PortError) {
                    if let entry = try readEntry("\(file)/\(inner)") { entries.append(entry) }
                } catch {
                    failure = error
                }
            }
            // The file that cannot be read now may be that of the present home.
            if let failure, entries.isEmpty || failure.mayHideEntry { throw failure }
            if !entries.isEmpty { return entries }
        }
        return []
    }

    func readEntry(_ file: String) throws(PortError) -> NameEntry? {
        let path = path(file)
        // A planted link must not be followed, and a planted FIFO must not block.
        let descriptor = folder.open(file, O_RDONLY | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw failure("open", file)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_uid == geteuid() else {
            log.warning(once: path, "\(path) belongs to user \(status.st_uid); it is not read")
            throw .untrustedDirectory(path, reason: "it belongs to user \(status.st_uid); remove it")
        }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= Self.largestEntry
        else { throw .untrustedDirectory(path, reason: "it is not an entry that this user's programs have written") }
        let bytes = [UInt8](unsafeUninitializedCapacity: Self.largestEntry) { buffer, count in
            count = max(Glibc.read(descriptor, buffer.baseAddress, buffer.count), 0)
        }
        var entry = try NameEntry(bytes, path: path)
        // An entry is removed by its file's name, and a list has no name twice.
        guard file == Self.file(try NameEntry.fileName(for: entry.name), of: entry.right.id) else {
            throw .untrustedDirectory(path, reason: "it is the entry of another name or port; remove it")
        }
        entry.since = status.st_mtim.tv_sec
        return entry
    }
}

extension PortError {
    /// Whether the file that could not be read may be an entry of the library. A file that fails with one of these
    /// errors was put there by others.
    var mayHideEntry: Bool {
        guard case .directory(_, _, let error) = self else { return false }
        return ![EACCES, EPERM, ELOOP, ENOTDIR, ENXIO, ENODEV].contains(error)
    }
}

extension PortID {
    /// The file of a name's entry.
    var file: String { "\(incarnation).\(number)" }
}
