import Glibc
import RunLoopLocks

extension SystemdDaemon {
    /// A descriptor that the service manager has passed to this process: a socket of a `.socket` unit, or one that an
    /// earlier process has stored with ``Notification/storeDescriptor(_:name:untilHangUp:)``.
    public struct PassedDescriptor: Sendable, Hashable {
        /// The `FileDescriptorName=` of the socket's unit, or the name that it was stored under; `unknown` when the
        /// manager gives no names.
        public let name: String
        /// The descriptor. It is closed on exec.
        public let descriptor: Int32
    }

    /// Takes the descriptors that the service manager has passed to this process. The caller closes them. They are closed
    /// on exec from now on, so call this before the program starts others. The corresponding C function is
    /// `sd_listen_fds_with_names`.
    /// - Returns: The descriptors in the manager's order. None, when there are none for this process or they were taken
    ///   before.
    /// - Throws: ``SystemdError``: `badVariable`, or `badDescriptor` when something has closed one of them. Then
    ///   none is taken.
    public static func takeDescriptors() throws(SystemdError) -> [PassedDescriptor] {
        try ManagerConnection.shared.takeDescriptors(of: getpid())
    }
}

extension ManagerConnection {
    /// The first descriptor that a manager passes. The corresponding C constant is `SD_LISTEN_FDS_START`.
    private static let firstDescriptor: Int32 = 3

    /// - Parameter process: The process that takes them.
    func takeDescriptors(
        of process: pid_t, from first: Int32 = firstDescriptor
    ) throws(SystemdError) -> [SystemdDaemon.PassedDescriptor] {
        // A forked child is another process, and its lock may be held for ever.
        guard try environment.isMeant(for: process, by: "LISTEN_PID") else { return [] }
        let count = try environment.number("LISTEN_FDS", in: 0...Int32.max - first) ?? 0
        return try areDescriptorsTaken.withLock { isTaken throws(SystemdError) in
            if isTaken { return [] }
            // Checked first, because the variable may claim millions.
            for descriptor in first..<first + count where fcntl(descriptor, F_GETFD) < 0 {
                throw .badDescriptor(descriptor)
            }
            let names = try names(of: Int(count))
            for descriptor in first..<first + count { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
            isTaken = true
            return zip(names, first..<first + count).map { .init(name: $0, descriptor: $1) }
        }
    }

    private func names(of count: Int) throws(SystemdError) -> [String] {
        guard let list = environment["LISTEN_FDNAMES"] else { return Array(repeating: "unknown", count: count) }
        let names = list.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard names.count == count else {
            throw .badVariable(name: "LISTEN_FDNAMES", value: list, reason: "it does not name \(count) descriptors")
        }
        return names
    }
}
