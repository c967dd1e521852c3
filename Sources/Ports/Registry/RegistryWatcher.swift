import RunLoops
import Synchronization

/// Reports changes in a registry directory to listeners. There is one inotify instance a directory, while anybody
/// listens.
final class RegistryWatcher: Sendable {
    enum Change {
        /// The entry in a file.
        case entry(String)
        /// No entry has changed, but a port that may have had a name is invalid.
        case portInvalidated
        /// Unknown: look at everything.
        case any
        /// The directory was removed. No other change follows.
        case directoryRemoved
    }

    /// The closure is called on the housekeeping thread, or on the thread that made a port invalid.
    final class Listener: Sendable {
        fileprivate let isRemoved = Atomic(false)
        fileprivate let handler: @Sendable (Change) -> Void

        init(_ handler: @escaping @Sendable (Change) -> Void) { self.handler = handler }

        /// Whether the directory was removed while this listener was added.
        var isDirectoryRemoved: Bool { isRemoved.load(ordering: .acquiring) }
    }

    private struct State {
        var listeners: [ObjectIdentifier: Listener] = [:]
        var source: ThreadRunLoop.Source1?
        var path: String
    }

    private let housekeeping: Housekeeping
    private let state: Lock<State>

    init(_ path: String, _ housekeeping: Housekeeping) {
        state = Lock(State(path: path))
        self.housekeeping = housekeeping
    }

    /// Reports every change from now on to the listener.
    func add(_ listener: Listener) throws(PortError) {
        let loop = try housekeeping.loop()
        try state.withLock { (state) throws(PortError) in
            if state.source == nil {
                state.source = try runLoop { () throws(RunLoopError) in
                    let source = try ThreadRunLoop.Source1.file(
                        state.path, [.entryCreated, .entryRemoved, .entryMovedIn, .entryMovedOut]
                    ) { [weak self] change in self?.changed(change) }
                    try loop.add(source)
                    return source
                }
            }
            state.listeners[ObjectIdentifier(listener)] = listener
        }
    }

    /// The path from now on. It leads to the same folder.
    func setPath(_ path: String) { state.withLock { $0.path = path } }

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
