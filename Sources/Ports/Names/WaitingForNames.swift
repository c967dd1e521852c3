import Glibc
import RunLoops

// Nothing polls: inotify reports the registry directory's changes, and the control connection to a name's owner its end.
// A killed owner leaves its entry behind, and yet its name is free.

extension PortNameServer {
    /// Waits until somebody has registered a name, and finds the port as ``port(forName:before:)`` does.
    ///
    /// While any thread waits, the process uses one inotify instance a registry directory; a user has
    /// `fs.inotify.max_user_instances` of them.
    /// - Parameters:
    ///   - name: The name.
    ///   - deadline: How long to wait. An owner who is there has a second to answer, even if this is sooner.
    /// - Returns: The right to send to the port.
    /// - Throws: ``PortError``: `nameNotFound` at the deadline, `outOfFileSources`, and as ``port(forName:before:)``.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public func waitForPort(
        forName name: String, before deadline: MonotonicInstant = .distantFuture
    ) throws(PortError) -> MachPort.SendRight {
        if let right = try portIfAny(forName: name, before: deadline) { return right }
        var gone: PortID?
        let right = try wait(forName: name, before: deadline) { () throws(PortError) -> MachPort.SendRight? in
            // Each attempt to reach a port that is gone would report its end again.
            guard let port = try portID(forName: name), port != gone else { return nil }
            let right = try portIfAny(forName: name, before: deadline)
            if right == nil { gone = port }
            return right
        }
        guard let right else { throw .nameNotFound(name, directory: path) }
        return right
    }

    /// Suspends until somebody has registered a name, and finds the port as ``port(forName:before:)`` does.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - deadline: How long to wait. An owner who is there has a second to answer, even if this is sooner.
    /// - Returns: The right to send to the port.
    /// - Throws: ``PortError``, as the form that blocks; `CancellationError` when the task is cancelled.
    public func waitForPort(
        forName name: String, before deadline: MonotonicInstant = .distantFuture
    ) async throws -> MachPort.SendRight {
        var gone: PortID?
        let right = try await wait(forName: name, before: deadline) { () async throws -> MachPort.SendRight? in
            guard let port = try portID(forName: name), port != gone else { return nil }
            let right = try await portIfAny(forName: name, before: deadline)
            if right == nil { gone = port }
            return right
        }
        guard let right else { throw PortError.nameNotFound(name, directory: path) }
        return right
    }

    /// Waits until the port that has a name has it no more: it was given up, or its owner is gone. Returns at once when
    /// nobody has it.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - deadline: How long to wait. An owner who is there has a second to answer, even if this is sooner.
    /// - Throws: ``PortError``: `nameInUse` at the deadline, `outOfFileSources`, and as ``port(forName:before:)``.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public func waitForEnd(
        ofName name: String, before deadline: MonotonicInstant = .distantFuture
    ) throws(PortError) {
        guard let right = try portIfAny(forName: name, before: deadline) else { return }
        let isOver: Bool? = try wait(forName: name, before: deadline) { () throws(PortError) in
            try has(right, name: name) ? nil : true
        }
        if isOver == nil { try throwInUse(name) }
    }

    /// Suspends until the port that has a name has it no more: it was given up, or its owner is gone. Returns at once
    /// when nobody has it.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - deadline: How long to wait.
    /// - Throws: ``PortError``, as the form that blocks; `CancellationError` when the task is cancelled.
    public func waitForEnd(ofName name: String, before deadline: MonotonicInstant = .distantFuture) async throws {
        guard let right = try await portIfAny(forName: name, before: deadline) else { return }
        let isOver: Bool? = try await wait(forName: name, before: deadline) {
            try has(right, name: name) ? nil : true
        }
        if isOver == nil { try throwInUse(name) }
    }

    /// The port; nil when nobody has the name.
    private func portIfAny(
        forName name: String, before deadline: MonotonicInstant
    ) throws(PortError) -> MachPort.SendRight? {
        do {
            return try port(forName: name, before: max(deadline, .now + .seconds(1)))
        } catch .nameNotFound {
            return nil
        }
    }

    /// The same, suspending the task.
    private func portIfAny(
        forName name: String, before deadline: MonotonicInstant
    ) async throws -> MachPort.SendRight? {
        do {
            return try await port(forName: name, before: max(deadline, .now + .seconds(1)))
        } catch PortError.nameNotFound {
            return nil
        }
    }

    private func has(_ right: MachPort.SendRight, name: String) throws(PortError) -> Bool {
        guard right.isValid else { return false }
        return try portID(forName: name) == right.id
    }

    /// The port in the name's entry, whatever has become of it.
    private func portID(forName name: String) throws(PortError) -> PortID? {
        try registryDirectory().entry(name)?.right.id
    }

    private func throwInUse(_ name: String) throws(PortError) {
        // It may have gone this very moment.
        if let entry = try registryDirectory().entry(name) { throw .nameInUse(name, pid: entry.pid) }
    }

    private func listener(
        forName name: String, _ handler: @escaping @Sendable () -> Void
    ) throws(PortError) -> RegistryWatcher.Listener {
        let file = try NameEntry.fileName(for: name)
        return RegistryWatcher.Listener { change in
            if case .entry(let changed) = change, changed != file { return }
            handler()
        }
    }

    private func check(_ listener: RegistryWatcher.Listener) throws(PortError) {
        if listener.isDirectoryRemoved { throw .directory(path, call: "inotify", errno: ENOENT) }
    }

    /// Looks, and looks again after each change, until there is a result; nil at the deadline.
    private func wait<Result>(
        forName name: String, before deadline: MonotonicInstant, _ look: () throws(PortError) -> Result?
    ) throws(PortError) -> Result? {
        let directory = try registryDirectory()
        let waiter = ThreadWaiter()
        let listener = try listener(forName: name) { waiter.wake() }
        try directory.watcher.add(listener)
        defer { directory.watcher.remove(listener) }
        while true {
            if let result = try look() { return result }
            try check(listener)
            guard waiter.wait(for: nil, until: deadline) else { return nil }
        }
    }

    private func wait<Result>(
        forName name: String, before deadline: MonotonicInstant, _ look: () async throws -> Result?
    ) async throws -> Result? {
        let directory = try registryDirectory()
        let (changes, teller) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let listener = try listener(forName: name) { teller.yield() }
        try directory.watcher.add(listener)
        defer { directory.watcher.remove(listener) }
        let timer = ThreadRunLoop.Timer(at: deadline) { _ in teller.finish() }
        try runtime.housekeeping.add(timer)
        defer { timer.invalidate() }
        var change = changes.makeAsyncIterator()
        while true {
            if let result = try await look() { return result }
            try check(listener)
            guard await change.next() != nil else {
                try Task.checkCancellation()
                return nil
            }
        }
    }
}
