import Glibc
import RunLoopLocks
import RunLoops

/// Reports the names that come and go in a registry directory.
///
///     let watch = try PortNameWatch(.shared)
///     while let change = try watch.next() { print(change) }
///
/// The names that exist at the beginning are reported first. A name that exists for a moment may not be reported.
/// Internal names of the library are not reported. A watch takes a control connection to each owner. All watches of one
/// directory share an inotify instance.
public final class PortNameWatch: Sendable {
    /// A change of a name.
    public enum Change: Sendable, Hashable {
        /// A live owner has registered the name.
        case came(PortNameServer.Registration)
        /// The owner has given up the name, or is gone.
        case went(PortNameServer.Registration)
    }

    /// The right keeps the owner reporting the port's end.
    private typealias Held = (registration: PortNameServer.Registration, right: MachPort.SendRight)

    private struct State {
        /// By the folder of the name.
        var held: [String: Held] = [:]
        /// Dead ports that have left their entries, by the folder of the name. Each attempt to reach such a port would cause
        /// another report of its end.
        var gone: [String: PortID] = [:]
        var untold: [Change] = []

        /// Takes out what is known of the names of some folders, or of all.
        mutating func take(_ files: Set<String>?) -> (held: [String: Held], gone: [String: PortID]) {
            guard let files else { return (exchange(&held, with: [:]), exchange(&gone, with: [:])) }
            var taken: (held: [String: Held], gone: [String: PortID]) = ([:], [:])
            for file in files {
                taken.held[file] = held.removeValue(forKey: file)
                taken.gone[file] = gone.removeValue(forKey: file)
            }
            return taken
        }
    }

    private let runtime: PortRuntime
    private let directory: RegistryDirectory
    private let news = News()
    private let listener: RegistryWatcher.Listener
    private let state = Lock(State())

    /// Begins to watch.
    /// - Throws: ``PortError``: `runLoop(.outOfFileSources)` without an inotify instance, or an error of the directory.
    public init(_ nameServer: PortNameServer = .shared) throws(PortError) {
        runtime = nameServer.runtime
        directory = try nameServer.registryDirectory()
        listener = try directory.listen { [news] change in
            switch change {
            case .entry(let file): news.announce([file])
            case .portInvalidated: news.announce([])
            case .any, .directoryRemoved: news.announce(nil)
            }
        }
    }

    /// Blocks until the next change. Any thread may call this method. Each change is returned once. While the directory
    /// cannot be read for lack of descriptors or memory, nothing changes.
    /// - Returns: Nil when the deadline came first.
    /// - Throws: ``PortError`` when the directory was removed, or must not be read.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func next(before deadline: ContinuousClock.Instant? = nil) throws(PortError) -> Change? {
        try Fork.check()
        let (deadline, waiter) = (MonotonicInstant(deadline), ThreadWaiter())
        news.add(waiter)
        defer { news.remove(waiter) }
        while true {
            let found = try find()
            if let change = found.change { return change }
            let isAwake = waiter.wait(for: nil, until: found.limit(deadline))
            guard isAwake || found.isUnreadable && !deadline.hasPassed else { return nil }
        }
    }

    /// Suspends the task until the next change. Each change is returned once. While the directory cannot be read for
    /// lack of descriptors or memory, nothing changes.
    /// - Returns: Nil when the deadline came first.
    /// - Throws: ``PortError`` when the directory was removed, or must not be read. `CancellationError`: another call
    ///   gets the change.
    public nonisolated(nonsending) func next(
        before deadline: ContinuousClock.Instant? = nil
    ) async throws -> Change? {
        try Fork.check()
        try Task.checkCancellation()
        let (deadline, waiter) = (MonotonicInstant(deadline), TaskWaiter(runtime.housekeeping))
        news.add(waiter)
        defer { news.remove(waiter) }
        while true {
            let found = try find()
            if let change = found.change { return change }
            let isAwake = try await waiter.wait(until: found.limit(deadline))
            guard isAwake || found.isUnreadable && !deadline.hasPassed else { return nil }
        }
    }

    /// The changes, one after the other, for a task's `for try await`. The sequence keeps the watch, and has no end.
    /// The loop ends with an error of `next(before:)`, or with `CancellationError`.
    public var changes: Changes { Changes(watch: self) }

    /// The changes of a watch. See ``PortNameWatch/changes``.
    public struct Changes: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let watch: PortNameWatch

        /// Starts to take changes.
        public func makeAsyncIterator() -> Changes { self }

        /// Suspends until there is a change, and takes it.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async throws -> Change? {
            try await watch.next()
        }
    }

    /// The result of a check.
    private struct Found {
        var change: Change?
        /// Whether the directory cannot be read for a while. No event reports that it can be read again.
        var isUnreadable = false

        func limit(_ deadline: MonotonicInstant) -> MonotonicInstant {
            isUnreadable ? min(deadline, .now + .milliseconds(100)) : deadline
        }
    }

    /// Takes a change, and checks the directory before if it may have changed.
    private func find() throws(PortError) -> Found {
        try state.withLock { (state) throws(PortError) in
            if !state.untold.isEmpty { return Found(change: state.untold.removeFirst()) }
            if listener.isDirectoryRemoved { throw .directory(directory.path, call: "inotify", errno: ENOENT) }
            guard let changed = news.take() else { return Found() }
            do throws(PortError) {
                try look(&state, changed)
            } catch {
                news.putBack(changed)
                guard error.mayHideEntry else { throw error }
                return Found(isUnreadable: true)
            }
            return Found(change: state.untold.isEmpty ? nil : state.untold.removeFirst())
        }
    }

    /// Compares entries with the last ones. An entry that cannot be read now throws, and so counts neither as gone nor as new.
    private func look(_ state: inout State, _ changed: News.Changed) throws(PortError) {
        // Nothing reports that a dead port's entry is followed by that of the port's next home.
        let invalid = state.held.filter { !$0.value.right.isValid }.keys
        let files: Set<String>? = changed.files?.union(invalid).union(state.gone.keys)
        let entries = try directory.presentEntries(in: files)
        let known = state.take(files)
        var held: [String: Held] = [:]
        for (file, entry) in entries where entry.isService {
            if known.gone[file] != entry.right.id, let found = stillHeld(known.held[file], entry) {
                held[file] = found
            } else {
                state.gone[file] = entry.right.id
            }
        }
        let went = known.held.filter { held[$0.key]?.right != $0.value.right }
        let came = held.filter { known.held[$0.key]?.right != $0.value.right }
        state.held.merge(held) { $1 }
        state.untold += went.values.map { .went($0.registration) } + came.values.map { .came($0.registration) }
    }

    /// Nil when the port is gone.
    private func stillHeld(_ known: Held?, _ entry: NameEntry) -> Held? {
        if let known, known.right.id == entry.publicID { return known.right.isValid ? known : nil }
        let owner = entry.right.id.incarnation
        guard runtime.control.isConnectedNow(to: owner) || directory.isAlive(owner) else { return nil }
        let right = runtime.right(of: entry)
        // Does not wait for a stopped owner.
        right.channel.watch()
        return right.isValid ? (.init(entry), right) : nil
    }
}

/// Tells all waiters that something may have changed.
private final class News: Sendable {
    /// The names that may have changed.
    struct Changed {
        /// The folders of the names; nil for all.
        var files: Set<String>?

        mutating func add(_ other: Changed) {
            if let others = other.files { files?.formUnion(others) } else { files = nil }
        }
    }

    /// At the beginning, all names that exist are new.
    private let state = Lock((changed: Changed?.some(Changed(files: nil)), waiters: [any Waiter]()))

    /// - Parameter files: The folders of the names that may have changed; nil when any may have. A name whose port is invalid
    ///   may have, too.
    func announce(_ files: Set<String>?) {
        let waiters = state.withLock { state in
            Self.add(Changed(files: files), to: &state.changed)
            return state.waiters
        }
        for waiter in waiters { waiter.wake() }
    }

    private static func add(_ other: Changed, to changed: inout Changed?) {
        if changed == nil { changed = other } else { changed?.add(other) }
    }

    /// Nil when nothing has changed.
    func take() -> Changed? { state.withLock { $0.changed.take() } }
    func putBack(_ changed: Changed) { state.withLock { Self.add(changed, to: &$0.changed) } }

    func add(_ waiter: some Waiter) { state.withLock { $0.waiters.append(waiter) } }
    func remove(_ waiter: some Waiter) { state.withLockUnlessForked { $0.waiters.removeAll { $0 === waiter } } }
}
