import Glibc

extension PortNameServer {
    /// The longest path of a directory, in bytes.
    package static var longestPath: Int { RegistryDirectory.longestPath }

    /// Gives a name to a port of this process. The corresponding method is NSPortNameServer's `registerPort:name:`.
    /// - Throws: ``PortError``: `nameInUse` with the owner's pid, `badName`, `isInvalid`, `unavailable` while the port is being
    ///   handed over to another process, or an error of the directory.
    public func register(_ port: MachPort, name: String) throws(PortError) {
        try give(name, to: port.receiver.exposure, isService: true)
    }

    /// Gives an internal port of the library a name that no list of services shows.
    func registerInternal(_ port: Receiver, name: String) throws(PortError) {
        try give(name, to: port.exposure, isService: false)
    }

    private func give(_ name: String, to port: any RegisteredPort, isService: Bool) throws(PortError) {
        try runtime.registry.inDirectory(path) { (directory) throws(PortError) in
            try directory.give(name, to: port, isService: isService)
        }
    }

    /// Takes a name from a port of this process. Nothing happens when the port does not have the name.
    /// The corresponding method is NSPortNameServer's `removePortForName:`.
    /// - Throws: ``PortError``: `unavailable` while the port is being handed over to another process, or an error of the
    ///   directory.
    public func remove(_ port: MachPort, name: String) throws(PortError) {
        let (directory, exposure) = (try registryDirectory(), port.receiver.exposure)
        if port.isValid, exposure.isHidden { throw .unavailable(reason: RegistryDirectory.isHandedOver) }
        // A port that has come with the name may wait for the directory to let it have the name here, too.
        let wasAwaited = runtime.registry.giveUpAwaiting(name, in: directory, for: exposure.id)
        try directory.unregister(name, from: exposure.id)
        if port.isValid { directory.removeFormerEntries(name, of: exposure, ofDead: !wasAwaited) }
        let hadName = exposure.hasName(name, in: directory)
        exposure.gaveUpName(name, in: directory)
        guard port.isValid, exposure.isHidden else { return }
        // The next owner may have been told the name before. If the port stays, it keeps the name.
        if hadName || wasAwaited {
            let identity = port.identity
            runtime.registry.take(name, isService: true, at: directory.path, with: exposure) { error in
                log.error("\(identity) has lost its name \(name.quoted): \(error)")
            }
        }
        throw .unavailable(reason: RegistryDirectory.isHandedOver)
    }

    /// All names of services, in no order, including the names of dead owners.
    /// - Throws: ``PortError``: an error of the directory, also when an entry cannot be read now.
    public func names() throws(PortError) -> [String] {
        try registryDirectory().entries().filter(\.isService).map(\.name)
    }

    /// The registrations of live owners, in no order.
    /// - Parameter includingInternal: Whether to include internal names of the library, such as the name that launched
    ///   workers check in by.
    /// - Throws: ``PortError``: an error of the directory, also when an entry cannot be read now.
    public func registrations(includingInternal: Bool = false) throws(PortError) -> [Registration] {
        let entries = try registryDirectory().liveEntries()
        // A process may have thousands of names.
        var programs: [NameEntry.Owner: String?] = [:]
        return entries.filter { includingInternal || $0.isService }.map { entry in
            let program = programs[entry.owner] ?? entry.program
            programs[entry.owner] = .some(program)
            return Registration(entry, ofProgram: program)
        }
    }

    /// The registration of a name; nil when nobody has it.
    public func registration(forName name: String) throws(PortError) -> Registration? {
        let directory = try registryDirectory()
        guard let entry = try directory.entry(name), directory.isAlive(entry.right.id.incarnation) else { return nil }
        return Registration(entry)
    }

    /// The right to the port of a registration, which its owner has not confirmed.
    package func right(of registration: Registration) -> MachPort.SendRight { runtime.right(of: registration.entry) }

    /// Removes the files that killed processes have left in the directory. The next process that exposes a port there
    /// sweeps, too.
    /// - Returns: The number of processes whose files were removed, and the removed names.
    /// - Throws: ``PortError``: an error of the directory, also when an entry cannot be read now.
    @discardableResult
    public func sweep() throws(PortError) -> (processes: Int, names: [String]) { try registryDirectory().sweepAll() }

    /// The registry's facts about a name.
    public struct Registration: Sendable, Hashable {
        /// The name.
        public let name: String
        /// The process id of the owner.
        public let pid: pid_t
        /// The path of the owner's program; nil when the system does not say.
        public let program: String?
        /// The user of the owner.
        public let uid: uid_t
        /// The time of registration, in seconds since 1970.
        public let since: Int
        /// The port, with this name and its owner.
        public let port: PortIdentity
        /// The messages of one sender that wait at the port before the sender waits.
        public let queueLimit: Int
        /// The bytes of one sender's messages that wait before the sender waits; nil for any number.
        public let byteLimit: Int?
        /// The largest message that the port takes, in bytes.
        public let messageLimit: Int
        /// False for an internal name of the library, such as the name that launched workers check in by.
        public let isService: Bool
        fileprivate let entry: NameEntry

        /// The number of the port's socket inside the owner's process.
        package var socketNumber: UInt64 { entry.right.id.number }
        /// The file at which other processes connect.
        package var socketPath: String { "\(entry.right.path)/\(entry.right.id.incarnation)/\(socketNumber)" }

        init(_ entry: NameEntry) { self.init(entry, ofProgram: entry.program) }

        fileprivate init(_ entry: NameEntry, ofProgram program: String?) {
            self.entry = entry
            name = entry.name
            pid = entry.pid
            self.program = program
            uid = geteuid()
            since = entry.since
            port = entry.port(ofProgram: program)
            queueLimit = Int(entry.right.queueLimit)
            byteLimit = entry.right.byteLimit == 0 ? nil : entry.right.byteLimit
            messageLimit = entry.right.limit
            isService = entry.isService
        }
    }
}
