import RunLoopLocks
import RunLoops

/// Reports changes in a registry directory. The watcher has one inotify instance while anybody listens, and a second
/// longer, because the kernel takes milliseconds to close one.
final class RegistryWatcher: Sendable {
    enum Change {
        case entry(String)
        /// No entry has changed, but a port that may have had a name is invalid.
        case portInvalidated
        /// Anything may have changed.
        case any
        /// The directory, or its folder of names, was removed or moved. No other change follows.
        case directoryRemoved
    }

    typealias Handler = @Sendable (Change) -> Void

    /// Listens as long as somebody keeps the object.
    final class Listener: Sendable {
        private let watcher: RegistryWatcher

        fileprivate init(_ watcher: RegistryWatcher) { self.watcher = watcher }

        deinit {
            // Another thread may have held the lock at the fork.
            if !Fork.isChild { watcher.remove(ObjectIdentifier(self)) }
        }

        /// Whether the directory was removed or moved meanwhile.
        var isDirectoryRemoved: Bool { watcher.state.withLock { $0.handlers[ObjectIdentifier(self)] == nil } }
    }

    private struct State {
        var handlers: [ObjectIdentifier: Handler] = [:]
        var source: ThreadRunLoop.Source1?
        /// Whether ``stopIfUnused()`` will be called.
        var isLeaving = false
    }

    private let housekeeping: Housekeeping
    private let state = Lock(State())

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    deinit { if !Fork.isChild { state.withLock { $0.source }?.invalidate() } }

    /// Reports changes in the folder of names, on the housekeeping thread, or on the thread that made a port invalid.
    func listen(to names: String, in directory: String, _ handler: @escaping Handler) throws(PortError) -> Listener {
        let listener = Listener(self)
        try state.withLock { (state) throws(PortError) in
            if state.source == nil { state.source = try makeSource(names, directory) }
            state.handlers[ObjectIdentifier(listener)] = handler
        }
        return listener
    }

    private func makeSource(_ names: String, _ directory: String) throws(PortError) -> ThreadRunLoop.Source1 {
        let source = try runLoop { () throws(RunLoopError) in
            try ThreadRunLoop.Source1.files([
                (names, [.entryCreated, .entryRemoved, .entryMovedIn, .entryMovedOut, .moved]), (directory, .moved),
            ]) { [weak self] in self?.changed($0) }
        }
        try housekeeping.add(source)
        return source
    }

    private func remove(_ listener: ObjectIdentifier) {
        // The handler is released after the lock.
        let (_, isUnused) = state.withLock { state in
            let handler = state.handlers.removeValue(forKey: listener)
            let isUnused = state.handlers.isEmpty && state.source != nil
            return (handler, isUnused && !exchange(&state.isLeaving, with: true))
        }
        if isUnused { housekeeping.perform(after: .seconds(1)) { [weak self] in self?.stopIfUnused() } }
    }

    private func stopIfUnused() {
        let unused = state.withLock { state in
            state.isLeaving = false
            return state.handlers.isEmpty ? state.source.take() : nil
        }
        unused?.invalidate()
    }

    var listenerCount: Int { state.withLock { $0.handlers.count } }
    var isWatching: Bool { state.withLock { $0.source != nil } }

    private func changed(_ change: ThreadRunLoop.FileChange) {
        if !change.events.isDisjoint(with: [.deleted, .unmounted, .moved]) {
            let (handlers, source) = state.withLock { (exchange(&$0.handlers, with: [:]), $0.source.take()) }
            source?.invalidate()
            for handler in handlers.values { handler(.directoryRemoved) }
        } else {
            tell(change.events.contains(.overflowed) ? .any : change.name.map { .entry($0) } ?? .any)
        }
    }

    func tell(_ change: Change) { for handler in state.withLock({ $0.handlers.values }) { handler(change) } }
}
