import RunLoops

extension PortNameServer {
    /// Finds the port of a name, and verifies that the process that registered the name is alive. Blocks until that
    /// process answers, at most until the deadline. The corresponding method is NSPortNameServer's `portForName:`.
    /// - Throws: ``PortError``: `nameNotFound` at once when nobody has the name; `cannotConnect`,
    ///   `incompatibleVersion`, or an error of the directory.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func port(
        forName name: String, before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(PortError) -> MachPort.SendRight {
        if let right = try find(name)?.port(before: MonotonicInstant(deadline)) { return right }
        throw .nameNotFound(name, directory: path)
    }

    /// Finds the port of a name, and verifies that the process that registered the name is alive. Suspends the task
    /// until that process answers, at most until the deadline.
    /// - Throws: ``PortError``: `nameNotFound` at once when nobody has the name; `cannotConnect`,
    ///   `incompatibleVersion`, or an error of the directory. `CancellationError`.
    public nonisolated(nonsending) func port(
        forName name: String, before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws -> MachPort.SendRight {
        if let right = try await find(name)?.port(before: MonotonicInstant(deadline)) { return right }
        throw PortError.nameNotFound(name, directory: path)
    }

    func find(_ name: String) throws(PortError) -> FoundName? {
        let directory = try registryDirectory()
        return try directory.entry(name).map { FoundName(entry: $0, directory: directory, runtime) }
    }
}

extension PortRuntime {
    /// The right to the port of a live process's entry.
    func right(of entry: NameEntry) -> MachPort.SendRight {
        let channel = channels.channel(to: entry.right, of: entry.publicID, replacesInvalid: true)
        if channel.identity.owner == nil, let owner = entry.port.owner { channel.note(owner: owner) }
        channel.note(name: entry.name)
        return MachPort.SendRight(channel)
    }
}

/// A name's entry, which the owner has not confirmed yet.
struct FoundName {
    private let entry: NameEntry
    private let directory: RegistryDirectory
    private let runtime: PortRuntime
    private let right: MachPort.SendRight
    /// Whether the owner would have reported the port's end by now.
    private let isKnown: Bool

    init(entry: NameEntry, directory: RegistryDirectory, _ runtime: PortRuntime) {
        self.entry = entry
        self.directory = directory
        self.runtime = runtime
        right = runtime.right(of: entry)
        isKnown = right.channel.isWatched && runtime.control.isConnectedNow(to: entry.right.id.incarnation)
    }

    /// Blocks until the owner has confirmed the port.
    /// - Returns: Nil when the port is gone.
    @available(*, noasync)
    func port(before deadline: MonotonicInstant) throws(PortError) -> MachPort.SendRight? {
        do throws(PortError) {
            let owner = try right.channel.connectToOwner(before: deadline)
            let probe = probe(owner)
            _ = probe?.invalidated.wait(until: deadline)
            return try checked(owner, probe)
        } catch .isInvalid {
            try removeEntry()
            return nil
        }
    }

    /// Suspends until the owner has confirmed the port.
    /// - Returns: Nil when the port is gone.
    nonisolated(nonsending) func port(before deadline: MonotonicInstant) async throws -> MachPort.SendRight? {
        do {
            let owner = try await right.channel.connectToOwner(before: deadline)
            let probe = probe(owner)
            _ = try await probe?.invalidated.value(before: deadline, on: right.channel.channels.housekeeping)
            return try checked(owner, probe)
        } catch PortError.isInvalid {
            try removeEntry()
            return nil
        }
    }

    /// Removes the entry of a dead port.
    /// - Throws: ``PortError`` when no right to any port is valid, because this process is ending.
    private func removeEntry() throws(PortError) {
        if runtime.isEnding { throw .isEnding }
        directory.removeDead(entry)
    }

    /// Probes the owner, which reports the end of the port before it answers the probe. Nil when no probe is needed.
    private func probe(_ owner: ControlConnection?) -> SendChannel? {
        isKnown || owner == nil ? nil : right.channel.probeOwner()
    }

    private func checked(_ owner: ControlConnection?, _ probe: SendChannel?) throws(PortError) -> MachPort.SendRight {
        if let probe, probe.invalidated.value == nil {
            let reason = "the owner of \(entry.name.quoted) does not answer in time\(ControlHandshake.remedy)"
            throw right.channel.noAnswer(.cannotConnect(port: right.identity, reason: reason))
        }
        guard right.isValid else { throw .isInvalid(port: right.identity) }
        // A port that has moved meanwhile has another owner.
        guard
            right.channel.id != entry.right.id
                || owner.map({ ProcessStatus.isProcess($0.pid, knownToItselfAs: entry.pid) }) ?? true
        else {
            throw .cannotConnect(
                port: right.identity,
                reason: "the socket of \(entry.name.quoted) belongs to another process than \(entry.pid)")
        }
        return right
    }
}
