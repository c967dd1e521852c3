import RunLoopLocks
import RunLoops
import Synchronization

/// Reports changes in a registry directory. There is one inotify instance a directory, while anybody listens.
final class RegistryWatcher: Sendable {
    enum Change {
        /// The entry in a file.
        case entry(String)
        /// No entry has changed, but a port that may have had a name is invalid.
        case portInvalidated
        /// Unknown: look at everything.
        case any
        /// The directory, or its folder of names, was removed or moved. No other change follows.
        case directoryRemoved
    }

    typealias Handler = @Sendable (Change) -> Void

    /// Listens as long as somebody keeps the object.
    final class Listener: Sendable {
        private let watcher: RegistryWatcher
        fileprivate let isRemoved = Atomic(false)
        fileprivate let handler: Handler

        fileprivate init(_ watcher: RegistryWatcher, _ handler: @escaping Handler) {
            self.watcher = watcher
            self.handler = handler
        }

        deinit {
            // Another thread may have held the lock at the fork.
            if !Fork.isChild { watcher.remove(ObjectIdentifier(self)) }
        }

        /// Whether the directory was removed or moved meanwhile.
        var isDirectoryRemoved: Bool { isRemoved.load(ordering: .acquiring) }
    }

    private struct State {
        var listeners: [ObjectIdentifier: Weak<Listener>] = [:]
        var source: ThreadRunLoop.Source1?
    }

    private let housekeeping: Housekeeping
    private let state = Lock(State())

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    /// Reports changes in the folder of names, on the housekeeping thread, or on the thread that made a port invalid.
    func listen(to names: String, in directory: String, _ handler: @escaping Handler) throws(PortError) -> Listener {
        let listener = Listener(self, handler)
        try state.withLock { (state) throws(PortError) in
            if state.source == nil { state.source = try makeSource(names, directory) }
            state.listeners[ObjectIdentifier(listener)] = Weak(listener)
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
        let unused = state.withLock { state in
            state.listeners[listener] = nil
            return state.listeners.isEmpty ? state.source.take() : nil
        }
        unused?.invalidate()
    }

    var listenerCount: Int { state.withLock { $0.listeners.count } }
    var isWatching: Bool { state.withLock { $0.source != nil } }

    private func changed(_ change: ThreadRunLoop.FileChange) {
        if !change.events.isDisjoint(with: [.deleted, .unmounted, .moved]) {
            state.withLock { $0.source.take() }?.invalidate()
            tell(.directoryRemoved)
        } else {
            tell(change.events.contains(.overflowed) ? .any : change.name.map { .entry($0) } ?? .any)
        }
    }

    func tell(_ change: Change) {
        for listener in state.withLock({ $0.listeners.values.compactMap(\.object) }) {
            if case .directoryRemoved = change { listener.isRemoved.store(true, ordering: .releasing) }
            listener.handler(change)
        }
    }
}
