import Glibc

extension PortNameServer {
    /// Gives a name to a port of this process. The corresponding method is NSPortNameServer's `registerPort:name:`.
    /// - Throws: ``PortError``: `nameInUse` with the owner's pid, `badName`, `isInvalid`, or an error of the directory.
    public func register(_ port: MachPort, name: String) throws(PortError) {
        try registryDirectory().give(name, to: port.receiver.exposure)
    }

    /// Gives an internal port of the library a name that no list of services shows.
    func registerInternal(_ port: Receiver, name: String) throws(PortError) {
        try registryDirectory().give(name, to: port.exposure, isService: false)
    }

    /// Takes a name from a port of this process. Nothing happens when the port does not have the name.
    /// The corresponding method is NSPortNameServer's `removePortForName:`.
    public func remove(_ port: MachPort, name: String) throws(PortError) {
        let directory = try registryDirectory()
        try directory.unregister(name, from: port.id)
        port.receiver.exposure.gaveUpName(name, in: directory)
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
        let entries = try registryDirectory().entries(ofLive: true)
        return entries.filter { includingInternal || $0.isService }.map(Registration.init)
    }

    /// The registration of a name; nil when nobody has it.
    public func registration(forName name: String) throws(PortError) -> Registration? {
        let directory = try registryDirectory()
        guard let entry = try directory.entry(name), directory.isAlive(entry.right.id.incarnation) else { return nil }
        return Registration(entry)
    }

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

        init(_ entry: NameEntry) {
            name = entry.name
            pid = entry.pid
            program = entry.program
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
