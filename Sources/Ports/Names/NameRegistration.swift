// Registering names, and reading what is registered.

extension PortNameServer {
    /// Gives a name to a port of this process. The corresponding method is NSPortNameServer's `registerPort:name:`.
    ///
    /// - Throws: ``PortError``: `nameInUse` with its owner's process id, `badName`, `isInvalid`, or what is wrong with
    ///   the directory.
    public func register(_ port: MachPort, name: String) throws(PortError) {
        try registryDirectory().give(name, to: port.receiver)
    }

    /// Takes a name back from a port of this process; nothing happens when it is not the port's.
    /// The corresponding method is NSPortNameServer's `removePortForName:`.
    public func remove(_ port: MachPort, name: String) throws(PortError) {
        let directory = try registryDirectory()
        try directory.unregister(name, from: port.id)
        port.receiver.gaveUpName(name, in: directory)
    }

    /// All names of the moment, in no order; those of owners who died unnoticed too.
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

    /// Removes what killed processes have left in the directory. There is no need to: the next process that makes a port
    /// there does so as well.
    ///
    /// - Returns: How many processes' files were removed, and which names.
    @discardableResult
    public func sweep() throws(PortError) -> (processes: Int, names: [String]) {
        try registryDirectory().sweepAll()
    }
}
