import RunLoops

// Removes the files of dead processes. A sweep checks each process, not each name, because a dead process's folder says
// which names it had.

extension RegistryDirectory {
    /// Sweeps without a deadline, and checks each name, because somebody may have removed its owner's folder.
    func sweepAll() throws(PortError) -> (processes: Int, names: [String]) {
        var swept = sweep(before: .distantFuture)
        // Entries that are registered after the reading are not checked. A process that has an entry listens already,
        // so no entry of a live process is removed.
        for entry in try deadEntries() {
            let file = try NameEntry.fileName(for: entry.name)
            guard folder.hasFile(Self.file(file, of: entry.right.id)), !isKept(entry, Self.file(file)) else { continue }
            if remove(entry.right.id, file), isFree(file) { swept.names.append(entry.name) }
        }
        return swept
    }

    /// Removes only files that the library has made. The directory may hold other files, and some may have similar
    /// names.
    @discardableResult
    func sweep(before deadline: MonotonicInstant) -> (processes: Int, names: [String]) {
        var swept = (processes: 0, names: [String]())
        for file in folder.files(in: ".") ?? [] {
            guard let incarnation = Incarnation(file), !isAlive(incarnation) else { continue }
            // A process that is starting has no control socket either, and its folder looks dead. It may listen by the
            // second check. So the files are listed before that check, and files that the process makes later are not
            // removed.
            let files = folder.files(in: file) ?? []
            guard !isAlive(incarnation) else { continue }
            for inner in files {
                guard !deadline.hasPassed else { return swept }
                if let name = sweep(inner, of: incarnation) { swept.names.append(name) }
            }
            if folder.removeFolder(file) { swept.processes += 1 }
        }
        sweepHomes()
        return swept
    }

    /// Whether no port has an entry of the name, also not one that has moved.
    private func isFree(_ file: String) -> Bool { folder.files(in: Self.file(file))?.isEmpty ?? true }

    /// - Returns: The name that was removed with the file.
    private func sweep(_ inner: String, of dead: Incarnation) -> String? {
        let file = "\(dead)/\(inner)"
        if folder.isSocket(file) {
            _ = folder.remove(file)
        } else if inner == "new" {
            for entry in folder.files(in: file) ?? [] where entry.hasPrefix("\(dead).") {
                _ = folder.remove("\(file)/\(entry)")
            }
            _ = folder.removeFolder(file)
        } else if let dot = inner.firstIndex(of: "."), let number = UInt64(inner[..<dot]), folder.isEmptyFile(file) {
            let (port, name) = (PortID(incarnation: dead, number: number), String(inner[inner.index(after: dot)...]))
            var removed: String?
            do throws(PortError) {
                let entry = try readEntry(Self.file(name, of: port))
                if let entry, isKept(entry, Self.file(name)) { return nil }
                removed = remove(port, name) && isFree(name) ? entry?.name : nil
            } catch {
                // A later sweep may be able to read the entry.
                if error.mayHideEntry { return nil }
            }
            _ = folder.remove(file)
            return removed
        }
        return nil
    }
}
