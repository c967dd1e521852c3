import Glibc
import RunLoops

// Nothing polls, because inotify reports changes of the registry directory, and the control connection to an owner
// reports its end. The name of a killed owner is free, though its entry remains.

extension PortNameServer {
    /// Blocks until somebody has registered a name, and finds the port. After the deadline, a live owner has up to a
    /// second more to answer. All waits in one directory share an inotify instance.
    /// - Throws: ``PortError``: `nameNotFound` at the deadline, `runLoop(.outOfFileSources)` without an inotify
    ///   instance, `cannotConnect`, `incompatibleVersion`, or an error of the directory.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func waitForPort(
        forName name: String, before deadline: ContinuousClock.Instant? = nil
    ) throws(PortError) -> MachPort.SendRight {
        let deadline = MonotonicInstant(deadline)
        if let right = try find(name)?.port(before: answerDeadline(deadline)) { return right }
        let changes = try NameChanges(of: name, self, ThreadWaiter())
        repeat {
            if let right = try changes.newPort()?.port(before: answerDeadline(deadline)) { return right }
        } while changes.waiter.wait(for: nil, until: deadline)
        throw .nameNotFound(name, directory: path)
    }

    /// Suspends the task until somebody has registered a name, and finds the port. After the deadline, a live owner has
    /// up to a second more to answer.
    /// - Throws: ``PortError``: `nameNotFound` at the deadline, `runLoop(.outOfFileSources)` without an inotify
    ///   instance, `cannotConnect`, `incompatibleVersion`, or an error of the directory. `CancellationError`.
    public nonisolated(nonsending) func waitForPort(
        forName name: String, before deadline: ContinuousClock.Instant? = nil
    ) async throws -> MachPort.SendRight {
        let deadline = MonotonicInstant(deadline)
        if let right = try await find(name)?.port(before: answerDeadline(deadline)) { return right }
        let changes = try NameChanges(of: name, self, TaskWaiter(runtime.housekeeping))
        repeat {
            if let right = try await changes.newPort()?.port(before: answerDeadline(deadline)) { return right }
        } while try await changes.waiter.wait(until: deadline)
        throw PortError.nameNotFound(name, directory: path)
    }

    /// Blocks until the owner of a name has given up the name, or is gone. Returns at once when nobody has the name.
    /// After the deadline, a live owner has up to a second more to answer.
    /// - Throws: ``PortError``: `nameInUse` at the deadline, `runLoop(.outOfFileSources)` without an inotify instance,
    ///   `cannotConnect`, `incompatibleVersion`, or an error of the directory.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func waitForEnd(ofName name: String, before deadline: ContinuousClock.Instant? = nil) throws(PortError) {
        let deadline = MonotonicInstant(deadline)
        guard let right = try find(name)?.port(before: answerDeadline(deadline)) else { return }
        let changes = try NameChanges(of: name, self, ThreadWaiter())
        while try changes.isHeld(by: right) {
            guard changes.waiter.wait(for: nil, until: deadline) else { return try throwInUse(name) }
        }
    }

    /// Suspends the task until the owner of a name has given up the name, or is gone. Returns at once when nobody has
    /// the name. After the deadline, a live owner has up to a second more to answer.
    /// - Throws: ``PortError``: `nameInUse` at the deadline, `runLoop(.outOfFileSources)` without an inotify instance,
    ///   `cannotConnect`, `incompatibleVersion`, or an error of the directory. `CancellationError`.
    public nonisolated(nonsending) func waitForEnd(
        ofName name: String, before deadline: ContinuousClock.Instant? = nil
    ) async throws {
        let deadline = MonotonicInstant(deadline)
        guard let right = try await find(name)?.port(before: answerDeadline(deadline)) else { return }
        let changes = try NameChanges(of: name, self, TaskWaiter(runtime.housekeeping))
        while try changes.isHeld(by: right) {
            guard try await changes.waiter.wait(until: deadline) else { return try throwInUse(name) }
        }
    }

    private func answerDeadline(_ deadline: MonotonicInstant) -> MonotonicInstant { max(deadline, .now + .seconds(1)) }

    private func throwInUse(_ name: String) throws(PortError) {
        // The owner may have given up the name at this moment.
        if let entry = try registryDirectory().entry(name) { throw .nameInUse(name, by: entry.port) }
    }
}

/// Wakes a waiter after each change of a name.
private final class NameChanges<Waiting: Waiter> {
    let waiter: Waiting
    private let name: String
    /// The directory that is watched. Its path may lead to another one later.
    private let directory: RegistryDirectory
    private let listener: RegistryWatcher.Listener
    private let runtime: PortRuntime
    /// The port of the last attempt. Each attempt to reach a dead port would cause another report of its end.
    private var tried: PortID?

    init(of name: String, _ names: PortNameServer, _ waiter: Waiting) throws(PortError) {
        self.waiter = waiter
        self.name = name
        runtime = names.runtime
        directory = try names.registryDirectory()
        let file = try NameEntry.fileName(for: name)
        listener = try directory.listen { change in
            if case .entry(let changed) = change, changed != file { return }
            waiter.wake()
        }
    }

    /// The port in the name's entry, if the last call did not return it. An attempt goes to this port, because the
    /// entry may be missing for a moment.
    func newPort() throws(PortError) -> FoundName? {
        guard let entry = try directory.entry(name), entry.right.id != tried else {
            try check()
            return nil
        }
        tried = entry.right.id
        return FoundName(entry: entry, directory: directory, runtime)
    }

    /// Whether the port still has the name.
    func isHeld(by right: MachPort.SendRight) throws(PortError) -> Bool {
        guard right.isValid, try directory.entry(name)?.publicID == right.id else { return false }
        try check()
        return true
    }

    private func check() throws(PortError) {
        try directory.check()
        if listener.isDirectoryRemoved { throw .directory(directory.path, call: "inotify", errno: ENOENT) }
    }
}
