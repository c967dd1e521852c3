// Registering names, and reading what is registered.

extension PortNameServer {
    /// Gives a name to a port of this process. The corresponding method is NSPortNameServer's `registerPort:name:`.
    ///
    /// - Throws: ``PortError``: `nameInUse` with the owner's process id, `badName`, `isInvalid`, or an error of the
    ///   directory.
    public func register(_ port: MachPort, name: String) throws(PortError) {
        try registryDirectory().give(name, to: port.receiver)
    }

    /// Takes a name from a port of this process. Nothing happens when the port does not have the name.
    /// The corresponding method is NSPortNameServer's `removePortForName:`.
    public func remove(_ port: MachPort, name: String) throws(PortError) {
        let directory = try registryDirectory()
        try directory.unregister(name, from: port.id)
        port.receiver.gaveUpName(name, in: directory)
    }

    /// All names, in no order, also those of dead owners.
    public func names() throws(PortError) -> [String] {
        try registryDirectory().entries().map(\.name)
    }

    /// The registrations of live owners, in no order.
    public func registrations() throws(PortError) -> [Registration] {
        let directory = try registryDirectory()
        return directory.liveEntries().map(Registration.init)
    }

    /// The registration of a name; nil when nobody has it.
    public func registration(forName name: String) throws(PortError) -> Registration? {
        let directory = try registryDirectory()
        guard let entry = try directory.entry(name), directory.isAlive(entry.right.id.incarnation) else { return nil }
        return Registration(entry)
    }

    /// Removes the files that killed processes have left in the directory. The next process that exposes a port there
    /// does so, too. Returns the count of processes whose files were removed, and the removed names.
    @discardableResult
    public func sweep() throws(PortError) -> (processes: Int, names: [String]) {
        try registryDirectory().sweepAll()
    }
}
