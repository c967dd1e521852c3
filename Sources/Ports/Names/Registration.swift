import Glibc

extension PortNameServer {
    /// What the registry says about a name.
    public struct Registration: Sendable, Hashable {
        /// The name.
        public let name: String
        /// The process that has registered it.
        public let pid: pid_t
        /// The path of the program that it ran when this was asked; nil when the system did not say.
        public let program: String?
        /// The user whose process that is. No other's gets into the registry.
        public let uid: uid_t
        /// When it was registered, in seconds since 1970.
        public let since: Int
        /// The port's number and its process, as ``MachPort/description`` says it.
        public let port: String
        /// How many messages of one sender wait at the port before that sender has to.
        public let queueLimit: Int
        /// How many bytes of one sender's messages wait at the port before that sender has to; nil for any number.
        public let byteLimit: Int?
        /// The largest message that the port takes, in bytes.
        public let messageLimit: Int

        init(_ entry: NameEntry) {
            name = entry.name
            pid = entry.pid
            program = ProcessStatus.startTime(of: pid) == entry.startTime ? Self.program(of: pid) : nil
            uid = geteuid()
            since = entry.since
            port = entry.right.id.description
            queueLimit = Int(entry.right.queueLimit)
            byteLimit = entry.right.byteLimit == 0 ? nil : entry.right.byteLimit
            messageLimit = entry.right.limit
        }

        private static func program(of pid: pid_t) -> String? {
            var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
            let count = readlink("/proc/\(pid)/exe", &buffer, buffer.count)
            return count > 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
        }
    }
}
