import Glibc

extension PortNameServer {
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
        /// The port's number and its process, as in ``MachPort/description``.
        public let port: String
        /// The messages of one sender that wait at the port before the sender waits.
        public let queueLimit: Int
        /// The bytes of one sender's messages that wait before the sender waits; nil for any number.
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
