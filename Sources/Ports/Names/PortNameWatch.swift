import Glibc
import RunLoopLocks
import RunLoops

/// Reports the names that come and go in a registry directory.
///
///     let watch = try PortNameWatch(.shared)
///     while let change = try watch.next() { print(change) }
///
/// The names that exist at the beginning are reported first. A name that existed for a moment may not be reported.
/// A watch takes a control connection to each owner. All watches of one directory share an inotify instance.
public final class PortNameWatch: Sendable {
    /// A change of a name.
    public enum Change: Sendable, Hashable {
        /// A live owner has registered the name.
        case came(PortNameServer.Registration)
        /// The owner has given up the name, or is gone.
        case went(PortNameServer.Registration)
    }

    /// The right keeps the watch of the port's end.
    private typealias Held = (registration: PortNameServer.Registration, right: MachPort.SendRight)

    private struct State {
        var held: [String: Held] = [:]
        /// Dead ports that have left their entries. Each attempt to reach such a port would report its end again.
        var gone: Set<PortID> = []
        var untold: [Change] = []
    }

    private let runtime: PortRuntime
    private let directory: RegistryDirectory
    private let waiter = ThreadWaiter()
    private let listener: RegistryWatcher.Listener
    private let state = Lock(State())

    /// Begins to watch. Throws `runLoop(.outOfFileSources)` without an inotify instance, or an error of the directory.
    public init(_ nameServer: PortNameServer = .shared) throws(PortError) {
        runtime = nameServer.runtime
        directory = try nameServer.registryDirectory()
        listener = try directory.listen { [waiter] _ in waiter.wake() }
        waiter.wake()
    }

    /// Waits for the next change; nil when the deadline came first. Any thread may call this method; each change is
    /// returned once. While the directory cannot be read for want of descriptors or memory, nothing changes.
    /// - Throws: ``PortError`` when the directory was removed, or must not be read.
    @available(*, noasync, message: "it blocks its thread")
    public func next(before deadline: ContinuousClock.Instant? = nil) throws(PortError) -> Change? {
        try Fork.check()
        let deadline = MonotonicInstant(deadline)
        var hasFailed = false
        // No event reports that the directory can be read again, so the next call looks at once.
        defer { if hasFailed { waiter.wake() } }
        while true {
            let (change, isLast) = state.withLock { state in
                (state.untold.isEmpty ? nil : state.untold.removeFirst(), state.untold.isEmpty)
            }
            // Other threads may wait.
            if !isLast { waiter.wake() }
            if let change { return change }
            if listener.isDirectoryRemoved { throw .directory(directory.path, call: "inotify", errno: ENOENT) }
            let end = hasFailed ? min(deadline, .now + .milliseconds(100)) : deadline
            guard waiter.wait(for: nil, until: end) || hasFailed && !deadline.hasPassed else { return nil }
            do throws(PortError) {
                try state.withLock { (state) throws(PortError) in try look(&state) }
                hasFailed = false
            } catch {
                hasFailed = true
                guard error.mayHideEntry else { throw error }
            }
        }
    }

    /// Compares the entries with the last ones. What cannot be read now is neither gone nor new.
    private func look(_ state: inout State) throws(PortError) {
        let entries = try directory.entries()
        let (known, gone) = (state.held, state.gone)
        (state.held, state.gone) = ([:], [])
        for entry in entries {
            if !gone.contains(entry.right.id), let held = stillHeld(known[entry.name], entry) {
                state.held[entry.name] = held
            } else {
                state.gone.insert(entry.right.id)
            }
        }
        let went = known.filter { state.held[$0.key]?.right != $0.value.right }
        let came = state.held.filter { known[$0.key]?.right != $0.value.right }
        state.untold += went.values.map { .went($0.registration) } + came.values.map { .came($0.registration) }
    }

    /// Nil when the port is gone.
    private func stillHeld(_ known: Held?, _ entry: NameEntry) -> Held? {
        if let known, known.right.id == entry.right.id { return known.right.isValid ? known : nil }
        let owner = entry.right.id.incarnation
        guard runtime.control.isConnected(to: owner) || directory.isAlive(owner) else { return nil }
        let right = MachPort.SendRight(runtime.channels.channel(to: entry.right, replacesInvalid: true))
        // Does not wait for a stopped owner.
        right.channel.watch()
        return right.isValid ? (.init(entry), right) : nil
    }
}
