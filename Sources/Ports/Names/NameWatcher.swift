import RunLoops
import Synchronization

/// Tells those who listen that something in a registry directory has changed. The kernel tells it: one inotify
/// instance a directory, which is there as long as somebody listens.
final class NameWatcher: Sendable {
    enum Change {
        /// The entry in a file.
        case entry(String)
        /// None of an entry, but a port that may have had a name is invalid.
        case portInvalidated
        /// What it is, is not known.
        case any
        /// The directory is no more: nothing else will be told.
        case directoryRemoved
    }

    /// One who listens. The closure is called on the housekeeping thread, or on one that made a port invalid.
    final class Listener: Sendable {
        fileprivate let isRemoved = Atomic(false)
        fileprivate let handler: @Sendable (Change) -> Void

        init(_ handler: @escaping @Sendable (Change) -> Void) { self.handler = handler }

        /// Whether the directory was removed while this one listened.
        var isDirectoryRemoved: Bool { isRemoved.load(ordering: .acquiring) }
    }

    private struct State {
        var listeners: [ObjectIdentifier: Listener] = [:]
        var source: ThreadRunLoop.Source1?
    }

    private let path: String
    private let state = Mutex(State())

    init(_ path: String) { self.path = path }

    /// What happens from now on is told to the listener.
    func add(_ listener: Listener) throws(PortError) {
        let loop = try PortProcess.current.housekeepingLoop()
        try state.withLock { (state) throws(PortError) in
            if state.source == nil {
                state.source = try runLoop { () throws(RunLoopError) in
                    let source = try ThreadRunLoop.Source1.file(
                        path, [.entryCreated, .entryRemoved, .entryMovedIn, .entryMovedOut]
                    ) { [weak self] change in self?.changed(change) }
                    try loop.add(source)
                    return source
                }
            }
            state.listeners[ObjectIdentifier(listener)] = listener
        }
    }

    func remove(_ listener: Listener) {
        let unused = state.withLock { state in
            state.listeners[ObjectIdentifier(listener)] = nil
            guard state.listeners.isEmpty else { return nil as ThreadRunLoop.Source1? }
            defer { state.source = nil }
            return state.source
        }
        unused?.invalidate()
    }

    /// Whether anybody listens.
    var isWatching: Bool { state.withLock { $0.source != nil } }

    private func changed(_ change: ThreadRunLoop.FileChange) {
        if !change.events.isDisjoint(with: [.deleted, .unmounted]) {
            state.withLock { $0.source = nil }
            tell(.directoryRemoved)
        } else {
            tell(change.events.contains(.overflowed) ? .any : change.name.map { .entry($0) } ?? .any)
        }
    }

    func tell(_ change: Change) {
        for listener in state.withLock({ Array($0.listeners.values) }) {
            if case .directoryRemoved = change { listener.isRemoved.store(true, ordering: .releasing) }
            listener.handler(change)
        }
    }
}
