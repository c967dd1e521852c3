import RunLoops

// Restores entries of live ports that somebody has removed. The library itself never removes such an entry.

extension RegistryDirectory {
    func listen(_ handler: @escaping RegistryWatcher.Handler) throws(PortError) -> RegistryWatcher.Listener {
        try watcher.listen(to: reachablePath(Self.names), in: reachablePath("."), handler)
    }

    /// Listens for the removal of our entries, as long as there are any.
    func watchOwnEntries() {
        let isNew = removalListener.withLock { listener in
            let isNeeded = own.withLock { !$0.names.isEmpty }
            if !isNeeded { listener = nil }
            guard isNeeded, listener == nil, isCurrent(at: path) else { return false }
            do throws(PortError) {
                listener = try listen { [weak self] in self?.changed($0) }
            } catch {
                // The name is registered all the same.
                log.warning("entries that somebody removes from \(path) will not be restored: \(error)")
            }
            return listener != nil
        }
        // Earlier changes were not reported.
        if isNew { changed(.any) }
    }

    private func changed(_ change: RegistryWatcher.Change) {
        guard !Fork.isChild else { return }
        // Most changes in a full directory are not to entries of ours.
        let concerned: [String: NameEntry]
        switch change {
        case .portInvalidated: return
        case .directoryRemoved: return later { if !$0.watchAnew() { $0.retry { $0.watchAnew() } } }
        case .entry(let file): concerned = own.withLock { own in own.names[file].map { [file: $0] } ?? [:] }
        case .any: concerned = own.withLock { $0.names }
        }
        // What cannot be read now is looked at again.
        let missing = concerned.filter { (try? isMissing($0.value, $0.key)) ?? true }
        if !missing.isEmpty { later { $0.restore(missing) } }
    }

    /// The removal of an entry may be the beginning of the removal of the whole directory.
    private func later(_ body: @escaping @Sendable (RegistryDirectory) -> Void) {
        registry.housekeeping.perform(after: .milliseconds(100)) { [weak self] in if let self { body(self) } }
    }

    private func isMissing(_ entry: NameEntry, _ file: String) throws(PortError) -> Bool {
        try readValid(file)?.right.id != entry.right.id
    }

    private func restore(_ missing: [String: NameEntry]) {
        guard isCurrent(at: path) else { return tellRemoval() }
        for (file, entry) in missing where own.withLock({ $0.lost.insert(file).inserted }) {
            do throws(PortError) {
                try restore(file)
            } catch {
                log.warning("perhaps nobody can find “\(entry.name)” in \(path), which is looked at again: \(error)")
                retry { (try? $0.restore(file)) != nil }
            }
        }
    }

    private func restore(_ file: String) throws(PortError) {
        // The name may have been given up since.
        if isCurrent(at: path), let entry = own.withLock({ $0.names[file] }), try isMissing(entry, file) {
            let cause = "somebody has removed the entry of “\(entry.name)” from \(path)"
            do throws(PortError) {
                try renew(file)
                log.warning("\(cause): it is restored")
            } catch .nameInUse(_, let pid) {
                own.withLock { if $0.names[file]?.right.id == entry.right.id { $0.names[file] = nil } }
                log.warning("\(cause): process \(pid) has the name now")
            }
        }
        own.withLock { _ = $0.lost.remove(file) }
    }

    /// Calls the closure once a second until it returns true.
    func retry(_ body: @escaping @Sendable (RegistryDirectory) -> Bool) {
        let timer = ThreadRunLoop.Timer(after: .seconds(1), repeats: true) { [weak self] timer in
            if self.map(body) ?? true { timer.invalidate() }
        }
        try? registry.housekeeping.add(timer)
    }

    /// The folder of all names was removed or moved, and nothing is watched. False when the folder cannot be made again
    /// now, or may come back with the directory.
    private func watchAnew() -> Bool {
        removalListener.withLock { $0 = nil }
        guard isCurrent(at: path) else {
            tellRemoval()
            return folder.isRemoved || own.withLock { $0.names.isEmpty }
        }
        guard folder.makeFolder(Self.names) else {
            log.warning(once: path, "somebody has removed the names in \(path): \(failure("mkdir", Self.names))")
            return false
        }
        watchOwnEntries()
        return true
    }

    private func tellRemoval() {
        let count = own.withLock { $0.names.count }
        if count > 0 {
            log.error(once: path, "somebody has removed or moved \(path): nobody can find its \(count) names")
        }
    }
}
