import Glibc

// The homes of ports that have moved from one process to another. A port's identity is that of its first home.
//
// Before a move, the owner makes a file, which names the port and its next home. Then either the next owner moves the file
// to its place, and has the port, or the owner removes the file, and keeps the port. If the owner has died, whoever notices
// that removes the file, and the port is gone. The kernel lets one of them win.
//
// A port that is lent has a second file, which names the port and its place at the lender. When the borrower has ended, the
// lender moves that file to the port's place, and has the port again.

extension RegistryDirectory {
    static let homes = "homes"
    static let moves = "moves"
    static let loans = "loans"

    private static func homeFile(_ port: PortID) -> String { "\(homes)/\(port.file)" }
    private static func moveFile(_ port: PortID, to home: PortID) -> String { "\(moves)/\(port.file)~\(home.file)" }
    private static func loanFile(_ port: PortID, of home: PortID) -> String { "\(loans)/\(port.file)~\(home.file)" }

    /// The home of a port; nil when it has not moved, or has ended.
    /// - Throws: ``PortError`` when the file cannot be read now.
    func home(of port: PortID) throws(PortError) -> PortID? {
        try text(ofFile: Self.homeFile(port)).flatMap { PortID(file: $0) }
    }

    /// The place at which a port goes on when its owner at `address` does not have it any more; nil when it has ended.
    /// - Parameter ownerDied: Whether that owner has ended, and not only the port there. Then a move from there that nobody
    ///   has decided is over, as it is in each case where a lender waits for the port.
    /// - Throws: ``PortError`` when the file cannot be read now.
    func nextHome(of port: PortID, after address: PortID, ownerDied: Bool) throws(PortError) -> NextHome? {
        // Read first, because a port that comes back has a home before its loan ends.
        let lender = try lender(of: port)
        if let home = try home(of: port), home != address { return .moved(to: home) }
        if ownerDied || lender != nil {
            try endMoves(of: port)
            // The next owner may have been the first.
            if let home = try home(of: port), home != address { return .moved(to: home) }
        }
        return lender.map { .lender($0) }
    }

    /// The files in a folder that name a port and another one, and the other one. A file that names no other was not written
    /// by the library, and says nothing.
    private func files(in folder: String, of port: PortID) throws(PortError) -> [(file: String, other: PortID)] {
        guard let names = self.folder.files(in: folder) else {
            if errno == ENOENT { return [] }
            throw failure("open", folder)
        }
        return names.filter { $0.hasPrefix("\(port.file)~") }.compactMap { name in
            PortID(file: name.dropFirst(port.file.utf8.count + 1)).map { ("\(folder)/\(name)", $0) }
        }
    }

    /// Begins a move.
    /// - Throws: ``PortError`` when the directory cannot be written.
    func beginMove(of port: PortID, to home: PortID) throws(PortError) {
        try writeHome(home, in: [Self.homes, Self.moves], to: Self.moveFile(port, to: home))
    }

    private func writeHome(_ home: PortID, in folders: [String], to file: String) throws(PortError) {
        for name in folders where !folder.makeFolder(name) { throw failure("mkdir", name) }
        do throws(PortError) {
            try write(Array(home.file.utf8), to: file)
        } catch {
            // The name of an unfinished file would count as well.
            _ = folder.remove(file)
            throw error
        }
    }

    /// The next owner takes the port.
    /// - Returns: False when somebody has ended the move before.
    func commitMove(of port: PortID, to home: PortID) -> Bool {
        folder.rename(Self.moveFile(port, to: home), to: Self.homeFile(port))
    }

    /// The end of a move, as the owner finds it.
    enum EndOfMove {
        /// The owner keeps the port.
        case kept
        /// The next owner has taken the port before. The port may have moved on since.
        case taken
        /// The registry cannot tell: the files are gone with their directory, or cannot be read.
        case unknown
    }

    /// The owner, whose home is `address`, wants to keep the port. Blocks while no descriptor is left to read with.
    @available(*, noasync)
    func endMove(of port: PortID, at address: PortID, to home: PortID) -> EndOfMove {
        if folder.remove(Self.moveFile(port, to: home)) { return .kept }
        do throws(PortError) {
            if let home = try awaitedHome(of: port) { return home == address ? .kept : .taken }
            // Without a file, the next owner has ended the port, or somebody has removed the directory.
            return isInPlaceNow ? .taken : .unknown
        } catch {
            return .unknown
        }
    }

    /// The home of a port, as ``home(of:)``. Blocks while no descriptor is left to read with.
    @available(*, noasync)
    func awaitedHome(of port: PortID) throws(PortError) -> PortID? {
        while true {
            do throws(PortError) {
                return try home(of: port)
            } catch {
                guard error.isShortage else { throw error }
                usleep(10_000)
            }
        }
    }

    /// Lets nobody take the port any more.
    func endMoves(of port: PortID) throws(PortError) {
        for (file, _) in try files(in: Self.moves, of: port) { _ = folder.remove(file) }
    }

    /// The port has ended at its home.
    func forgetHome(of port: PortID, at home: PortID) {
        if (try? self.home(of: port)) == home { _ = folder.remove(Self.homeFile(port)) }
    }

    /// Whether the port lives, or is about to live, elsewhere than at `address`: it moves, or has moved, or goes back to its
    /// lender. When its owner has died, a move that nobody has decided is over then.
    func livesElsewhere(_ port: PortID, than address: PortID) throws(PortError) -> Bool {
        // Read in this order, because a port has its next home before its move, or its loan, is over.
        let moves = try !files(in: Self.moves, of: port).isEmpty
        if try lender(of: port) != nil { return true }
        // Without a note, the port is at its first home, or has ended.
        var home = try home(of: port)
        if isAlive((home ?? port).incarnation) {
            if moves { return true }
        } else {
            try endMoves(of: port)
            // The next owner may have been the first.
            home = try self.home(of: port)
        }
        guard let home, home != address else { return false }
        return try isOpen(port, at: home)
    }

    /// Whether a port is open at its home, or has left it since. A borrower that lives may have ended a port whose lender has
    /// ended since.
    private func isOpen(_ port: PortID, at home: PortID) throws(PortError) -> Bool {
        if isOpen(home) { return true }
        if try self.home(of: port) != home { return true }
        return isOpen(home)
    }

    /// Whether a port has its socket in its process's folder. The socket is closed with the port, and hidden while the port is
    /// being handed over.
    func isOpen(_ port: PortID) -> Bool {
        [Self.hiddenSocket(of: port), "\(port.number)"].contains {
            hasListener("\(port.incarnation)/\($0)", kind: .stream)
        }
    }

    // MARK: Loans

    /// Notes a loan, before the port moves to the borrower.
    /// - Parameter home: The place at the lender that waits for the port.
    /// - Throws: ``PortError`` when the directory cannot be written.
    func beginLoan(of port: PortID, by home: PortID) throws(PortError) {
        try writeHome(home, in: [Self.homes, Self.loans], to: Self.loanFile(port, of: home))
    }

    /// The lender does not wait for the port any more.
    func endLoan(of port: PortID, by home: PortID) { _ = folder.remove(Self.loanFile(port, of: home)) }

    /// The lender takes the port, because the borrower does not have it any more.
    /// - Returns: False when it does not wait for the port any more.
    /// - Throws: ``PortError`` when the directory cannot be written now.
    func takeBack(_ port: PortID, at home: PortID) throws(PortError) -> Bool {
        if folder.rename(Self.loanFile(port, of: home), to: Self.homeFile(port)) { return true }
        // Or somebody has removed the directory with the note.
        if errno == ENOENT { return !isInPlaceNow }
        throw failure("rename", Self.homeFile(port))
    }

    /// The place of a lent port at its lender; nil when the port is not lent, or its lender has ended.
    func lender(of port: PortID) throws(PortError) -> PortID? {
        try files(in: Self.loans, of: port).map(\.other).first { isAlive($0.incarnation) }
    }

    // MARK: Sweeping

    /// Removes what says where dead processes' ports were.
    func sweepHomes() {
        forEachPair(in: Self.moves) { port, home, file in
            if !isAlive(((try? self.home(of: port)) ?? port).incarnation), !isAlive(home.incarnation) {
                _ = folder.remove(file)
            }
        }
        forEachPair(in: Self.loans) { _, home, file in if !isAlive(home.incarnation) { _ = folder.remove(file) } }
        for file in folder.files(in: Self.homes) ?? [] {
            guard let port = PortID(file: file), let home = try? home(of: port), !isAlive(home.incarnation),
                (try? files(in: Self.moves, of: port))?.isEmpty == true,
                // A lender finds there who has had the port last.
                (try? files(in: Self.loans, of: port))?.isEmpty == true
            else { continue }
            forgetHome(of: port, at: home)
        }
    }

    /// Calls the closure with the two ports that each file in a folder names, and the file's path.
    private func forEachPair(in folder: String, _ body: (PortID, PortID, String) -> Void) {
        for name in self.folder.files(in: folder) ?? [] {
            let ends = name.split(separator: "~").map { PortID(file: $0) }
            if ends.count == 2, let port = ends[0], let home = ends[1] { body(port, home, "\(folder)/\(name)") }
        }
    }

    private func text(ofFile file: String) throws(PortError) -> String? {
        let descriptor = folder.open(file, O_RDONLY | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw failure("open", file)
        }
        defer { close(descriptor) }
        // Longer than any port.
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(validating: bytes[..<count], as: UTF8.self) : nil
    }
}

extension PortError {
    /// Whether a file could not be read for lack of descriptors or memory.
    var isShortage: Bool {
        guard case .directory(_, _, let error) = self else { return false }
        return [EMFILE, ENFILE, ENOMEM].contains(error)
    }
}

extension PortID {
    /// Reads the text of ``file``.
    init?(file: some StringProtocol) {
        guard let dot = file.firstIndex(of: "."), let incarnation = Incarnation(file[..<dot]),
            let number = UInt64(file[file.index(after: dot)...])
        else { return nil }
        self.init(incarnation: incarnation, number: number)
    }
}
