// Restores entries of live ports that somebody has removed. The library itself never removes such an entry.

import RunLoops

extension RegistryDirectory {
    func listen(_ handler: @escaping RegistryWatcher.Handler) throws(PortError) -> RegistryWatcher.Listener {
        try watcher.listen(to: reachablePath(Self.names), in: reachablePath("."), handler)
    }

    /// Listens for the removal of this runtime's entries, as long as it has any.
    func watchOwnEntries() {
        let isNew = removalListener.withLock { listener in
            let isNeeded = own.withLock { !$0.names.isEmpty }
            if !isNeeded || listener?.isDirectoryRemoved == true { listener = nil }
            guard isNeeded, listener == nil, isCurrent(at: path) else { return false }
            do throws(PortError) {
                listener = try listen { [weak self] in self?.changed($0) }
            } catch {
                // The name stays registered.
                log.warning("entries that somebody removes from \(path) will not be restored: \(error)")
            }
            return listener != nil
        }
        // Entries may have been removed before the listener existed, so all are checked.
        if isNew { changed(.any) }
    }

    private func changed(_ change: RegistryWatcher.Change) {
        guard !Fork.isChild else { return }
        let isConcerned = own.withLock { own in
            switch change {
            case .portInvalidated: return false
            // In a full directory, most changes are to entries of other processes.
            case .entry(let file) where own.names[file] == nil: return false
            case .entry(let file): own.suspects.insert(file)
            case .any, .directoryRemoved: own.suspects.formUnion(own.names.keys)
            }
            return true
        }
        // The removal of an entry may be the beginning of the removal of the whole directory.
        if isConcerned { restoreEntries(after: .milliseconds(100)) }
    }

    private func restoreEntries(after delay: Duration) {
        if own.withLock({ exchange(&$0.willRestore, with: true) }) { return }
        registry.housekeeping.perform(after: delay) { [weak self] in
            guard let self else { return }
            own.withLock { $0.willRestore = false }
            if let delay = restoreEntries() { restoreEntries(after: delay) }
        }
    }

    /// - Returns: The time after which entries are left to restore.
    private func restoreEntries() -> Duration? {
        guard isCurrent(at: path) else {
            let count = own.withLock { $0.names.count }
            guard count > 0 else { return nil }
            let names = count == 1 ? "the name" : "the \(count) names"
            let remedy = folder.isRemoved ? "restart" : "move it back, or restart"
            log.error(
                once: path,
                "somebody has removed or moved \(path): nobody can find \(names) of this process; \(remedy) it")
            return folder.isRemoved ? nil : .seconds(1)
        }
        guard folder.makeFolder(Self.names) else {
            log.warning(once: path, "somebody has removed the names in \(path): \(failure("mkdir", Self.names))")
            return .seconds(1)
        }
        watchOwnEntries()
        // Thousands of names take seconds. After each turn, the housekeeping thread serves everybody else.
        let end = MonotonicInstant.now + .milliseconds(2)
        while let file = own.withLock({ $0.nextSuspect() }) {
            do throws(PortError) {
                try restore(file)
            } catch {
                let problem = "perhaps nobody can find “\(file)” in \(path)"
                log.warning(once: problem, "\(problem), and the library checks again: \(error)")
                own.withLock { _ = $0.unrestored.insert(file) }
            }
            if end.hasPassed { return .zero }
        }
        return own.withLock { own in
            own.suspects.formUnion(exchange(&own.unrestored, with: []))
            return own.suspects.isEmpty ? nil : .seconds(1)
        }
    }

    /// The outcome for an entry that may have been removed.
    enum Restoration: Equatable { case unneeded, restored, nameTaken }

    /// Restores an entry of this runtime that somebody has removed.
    ///
    /// Another thread of this process may give the name up, or renew its entry, between the check here and the write.
    /// So the check is repeated under the lock of the names. Without that, this call could write an entry for a name
    /// that was given up a moment ago.
    /// - Parameter file: The folder of the name's entry.
    /// - Throws: ``PortError`` when the entry cannot be checked or written now.
    @discardableResult
    func restore(_ file: String) throws(PortError) -> Restoration {
        guard let entry = own.withLock({ $0.names[file] }), try isMissing(entry, file) else { return .unneeded }
        let cause = "somebody has removed the entry of “\(entry.name)” from \(path)"
        do throws(PortError) {
            guard try renew(file, where: { entry throws(PortError) in try isMissing(entry, file) }) else {
                return .unneeded
            }
            log.warning("\(cause): it is restored")
            return .restored
        } catch .nameInUse(_, let port) {
            let isOwn = own.withLock { own in
                guard own.names[file]?.right.id == entry.right.id else { return false }
                own.names[file] = nil
                return true
            }
            guard isOwn else { return .unneeded }
            log.warning("\(cause): \(port.ownerText) has the name now")
            return .nameTaken
        }
    }

    private func isMissing(_ entry: NameEntry, _ file: String) throws(PortError) -> Bool {
        // Beside it may be the entry of the port's next home.
        let own = Self.file(file, of: entry.right.id)
        do throws(PortError) {
            return try readEntry(own)?.right.id != entry.right.id
        } catch {
            if error.mayHideEntry { throw error }
            return true
        }
    }
}
