import CRunLoopShims
import RunLoops

// Entries of ours that somebody removes, which no library does while the owner lives, are restored.

extension PortDirectory {
    /// Whoever removes one may be about to remove the whole directory, and is not to find it full again.
    private static let pause = Duration.milliseconds(100)

    /// Listens for the removal of our entries, as long as there are any.
    func guardNames() {
        let isNew = guarding.withLock { _ in
            let (hasNames, guardian) = own.withLock { own in (!own.names.isEmpty, own.guardian) }
            guard hasNames == (guardian == nil) else { return false }
            if let guardian {
                watcher.remove(guardian)
                own.withLock { $0.guardian = nil }
                return false
            }
            guard folder.isAt(path) else { return false }
            let made = NameWatcher.Listener { [weak self] in self?.changed($0) }
            do throws(PortError) {
                try watcher.add(made)
            } catch {
                // The name is good for all that.
                log.warning("entries that somebody removes from \(path) will not be restored: \(error)")
                return false
            }
            own.withLock { $0.guardian = made }
            return true
        }
        // What happened before was not told.
        if isNew { changed(.any) }
    }

    private func changed(_ change: NameWatcher.Change) {
        guard !crl_is_forked() else { return }
        // In a full directory much happens that is not to our entries.
        let concerned: [String: NameEntry]
        switch change {
        case .portInvalidated: return
        case .directoryRemoved: return later { $0.guardAnew() }
        case .entry(let file): concerned = own.withLock { own in own.names[file].map { [file: $0] } ?? [:] }
        case .any: concerned = own.withLock { $0.names }
        }
        let missing = concerned.filter { isMissing($0.value, $0.key) }
        if !missing.isEmpty { later { $0.restore(missing) } }
    }

    private func later(_ body: @escaping @Sendable (PortDirectory) -> Void) {
        let timer = ThreadRunLoop.Timer(after: Self.pause) { [weak self] _ in if let self { body(self) } }
        _ = try? PortProcess.current.housekeepingLoop().add(timer)
    }

    private func isMissing(_ entry: NameEntry, _ file: String) -> Bool {
        (try? read(file))?.right.id != entry.right.id
    }

    private func restore(_ missing: [String: NameEntry]) {
        guard folder.isAt(path) else { return tellRemoval() }
        for (file, entry) in missing {
            guard let outcome = changing.withLock({ _ in restored(entry, file) }) else { continue }
            log.warning("somebody has removed the entry of “\(entry.name)” from \(path): \(outcome)")
        }
    }

    private func restored(_ entry: NameEntry, _ file: String) -> String? {
        // It may have been given up in the meantime.
        guard own.withLock({ $0.names[file] }) == entry, isMissing(entry, file) else { return nil }
        do throws(PortError) {
            try claim(entry, file)
            return "it is restored"
        } catch .nameInUse(_, let pid) {
            own.withLock { $0.names[file] = nil }
            return "process \(pid) has the name now"
        } catch {
            return "nobody can find it any more: \(error)"
        }
    }

    /// The folder of all names was removed, which ends the guard.
    private func guardAnew() {
        guarding.withLock { _ in
            let former = own.withLock { own in
                defer { own.guardian = nil }
                return own.guardian
            }
            if let former { watcher.remove(former) }
        }
        guard folder.isAt(path), folder.makeFolder(Self.names) else { return tellRemoval() }
        guardNames()
    }

    private func tellRemoval() {
        let count = own.withLock { $0.names.count }
        if count > 0 {
            log.error(once: path, "somebody has removed \(path): nobody can find the \(count) names that were in it")
        }
    }
}
