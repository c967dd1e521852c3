import RunLoops

extension PortNameServer {
    /// Finds the port of a name, and makes sure that its owner is alive and is the one who registered it.
    /// The corresponding method is NSPortNameServer's `portForName:`.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - deadline: How long the owner may take to answer.
    /// - Throws: ``PortError``: `nameNotFound` at once when nobody has the name; `cannotConnect`,
    ///   `incompatibleVersion`, or what is wrong with the directory.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public func port(
        forName name: String, before deadline: MonotonicInstant = .now + .seconds(5)
    ) throws(PortError) -> MachPort.SendRight {
        let found = try find(name)
        do throws(PortError) {
            let owner = try found.right.channel.connectToOwner(before: deadline)
            if let probe = found.probe(owner) { try found.check(probe.answered.wait(until: deadline)) }
            return try found.checked(owner)
        } catch .isInvalid {
            throw found.isGone()
        }
    }

    /// Finds the port of a name, suspending the task until its owner has answered. No thread waits.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - deadline: How long the owner may take to answer.
    /// - Throws: ``PortError``, as the form that blocks; `CancellationError` when the task is cancelled.
    public nonisolated(nonsending) func port(
        forName name: String, before deadline: MonotonicInstant = .now + .seconds(5)
    ) async throws -> MachPort.SendRight {
        let found = try find(name)
        do {
            let owner = try await found.right.channel.connectToOwner(before: deadline)
            if let probe = found.probe(owner) {
                try found.check(try await probe.answered.value(before: deadline, on: runtime.housekeeping))
            }
            return try found.checked(owner)
        } catch PortError.isInvalid {
            throw found.isGone()
        }
    }

    private func find(_ name: String) throws(PortError) -> FoundName {
        let directory = try registryDirectory()
        guard let entry = try directory.entry(name) else { throw .nameNotFound(name, directory: path) }
        return FoundName(entry: entry, directory: directory, runtime)
    }
}

/// A name's entry, whose owner has not confirmed it yet.
private struct FoundName {
    let entry: NameEntry
    let directory: RegistryDirectory
    let right: MachPort.SendRight
    /// Whether the port's end would have been reported already.
    private let isKnown: Bool

    init(entry: NameEntry, directory: RegistryDirectory, _ runtime: PortRuntime) {
        self.entry = entry
        self.directory = directory
        right = MachPort.SendRight(runtime.channels.channel(to: entry.right, replacesInvalid: true))
        isKnown = right.channel.isWatched && runtime.control.isConnected(to: entry.right.id.incarnation)
    }

    /// The owner reports the end of the port, if it is gone, before it answers the probe. Nil when no probe is needed.
    func probe(_ owner: ControlConnection?) -> OwnerPing? { isKnown || owner == nil ? nil : OwnerPing(right.channel) }

    func check(_ answer: Void?) throws(PortError) {
        if answer == nil {
            throw .cannotConnect(port: right.id, reason: "the owner of “\(entry.name)” does not answer in time")
        }
    }

    func checked(_ owner: ControlConnection?) throws(PortError) -> MachPort.SendRight {
        guard right.isValid else { throw .isInvalid(port: right.id) }
        guard owner.map({ PIDNamespace.isProcess($0.pid, knownToItselfAs: entry.pid) }) ?? true else {
            throw .cannotConnect(
                port: right.id, reason: "the socket of “\(entry.name)” is not that of process \(entry.pid)")
        }
        return right
    }

    /// The port of the entry is gone.
    func isGone() -> PortError {
        directory.removeDead(entry)
        return .nameNotFound(entry.name, directory: directory.path)
    }
}
