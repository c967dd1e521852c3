import CRunLoopShims
import Glibc
import RunLoops

/// Unix-domain sockets without libzmq, because libzmq's `bind` steals a live owner's path, and its `connect` reports no
/// failure.
enum LocalSocket {
    enum Kind {
        case stream, sequencedPackets
        fileprivate var type: Int32 { Int32((self == .stream ? SOCK_STREAM : SOCK_SEQPACKET).rawValue) }
    }

    static func make(_ kind: Kind) throws(PortError) -> Int32 {
        let flags = Int32(SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, kind.type | flags, 0)
        guard descriptor >= 0 else { throw .last("socket") }
        return descriptor
    }

    /// Makes a socket for a control connection. A fork closes it in the child; `crl_unforked_close` closes it here.
    static func makeControl() throws(PortError) -> Int32 {
        let descriptor = crl_unforked_socket(Kind.sequencedPackets.type)
        guard descriptor >= 0 else { throw .last("socket") }
        return descriptor
    }

    static func listenForControl(at path: String) throws(PortError) -> Int32 {
        try listening(makeControl(), at: path, close: crl_unforked_close)
    }

    static func listen(at path: String, kind: Kind) throws(PortError) -> Int32 {
        try listening(make(kind), at: path) { Glibc.close($0) }
    }

    /// Listens at a free path. Only processes of the socket's own user can connect.
    private static func listening(_ socket: Int32, at path: String, close: (Int32) -> Void) throws(PortError) -> Int32 {
        // Set before `bind`, which removes the umask's rights from the mode, so that other users have no access at any
        // moment.
        fchmod(socket, 0o600)
        let isTooLong = path.utf8.count > Wire.longestSocketPath
        if !isTooLong, withAddress(path, { bind(socket, $0, $1) }) == 0 {
            fchmodat(AT_FDCWD, path, 0o600, AT_SYMLINK_NOFOLLOW)
            if Glibc.listen(socket, SOMAXCONN) == 0 { return socket }
        }
        let error = errno
        close(socket)
        throw isTooLong
            ? .pathTooLong(path, limit: Wire.longestSocketPath) : .directory(path, call: "bind", errno: error)
    }

    /// Connects without waiting.
    /// - Returns: 0, or an `errno`.
    static func connect(_ descriptor: Int32, to path: String) -> Int32 {
        guard path.utf8.count <= Wire.longestSocketPath else { return ENAMETOOLONG }
        return withAddress(path) { Glibc.connect(descriptor, $0, $1) } == 0 ? 0 : errno
    }

    /// A connection that libzmq has made.
    struct Connection {
        let path: String
        let original: Int32
        private(set) var copy: Int32 = -1

        /// Whether libzmq still has the connection's descriptor. Another file may get the number.
        var isOpen: Bool { peerPath(of: original).map(end) == end(of: path) }

        /// Duplicates the descriptor, so that the connection stays when libzmq closes its own.
        /// - Returns: False when libzmq has closed its own, or no descriptor is left.
        mutating func keep() -> Bool {
            if copy < 0, isOpen { copy = fcntl(original, F_DUPFD_CLOEXEC, 0) }
            return copy >= 0
        }

        /// Whether the peer has not read everything from a connection that was kept.
        var hasUnread: Bool { LocalSocket.hasUnread(copy) }

        func drop() { close(copy) }
    }

    /// Whether the peer has not read everything that was sent.
    static func hasUnread(_ descriptor: Int32) -> Bool {
        var count: Int32 = 0
        return ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 && count > 0
    }

    static func connections(to paths: Set<String>) -> [Connection] {
        guard !paths.isEmpty else { return [] }
        let wanted = Dictionary(paths.map { (end(of: $0), $0) }) { path, _ in path }
        return connected().compactMap { socket in
            wanted[socket.end].map { Connection(path: $0, original: socket.number) }
        }
    }

    /// All sockets that are connected to a path, with the ends of the paths.
    static func connected() -> [(end: String, number: Int32)] {
        var numbers = (Folder.files(in: "/proc/self/fd") ?? []).compactMap { Int32($0) }
        // `/proc` is not mounted, or no descriptor is left to open it. The limit may be huge, or lower than numbers in
        // use.
        if numbers.isEmpty { numbers = Array(0..<Int32(min(max(Descriptor.limit, 1 << 16), 1 << 20))) }
        return numbers.compactMap { number in peerPath(of: number).map { (end(of: $0), number) } }
    }

    /// The last two parts of a path. They name the process and the port, and so one socket. The parts before depend on
    /// how the owner reaches the directory.
    static func end(of path: String) -> String {
        let slash = UInt8(ascii: "/")
        guard let last = path.utf8.lastIndex(of: slash), let former = path.utf8[..<last].lastIndex(of: slash) else {
            return path
        }
        return String(path[path.utf8.index(after: former)...])
    }

    private static func peerPath(of descriptor: Int32) -> String? {
        var address = sockaddr_un()
        var size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let isConnected = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &size) == 0 }
        }
        guard isConnected, address.sun_family == sa_family_t(AF_UNIX) else { return nil }
        return withUnsafeBytes(of: address.sun_path) { bytes in
            String(validating: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    enum Listening {
        /// A process listens, or may listen.
        case somebody
        /// The process that listened is gone.
        case nobody
        /// The path leads to no socket. Perhaps a folder on its way has moved.
        case noSocket
    }

    static func listening(at path: String, kind: Kind = .sequencedPackets) -> Listening {
        let descriptor = crl_unforked_socket(kind.type)
        guard descriptor >= 0 else { return .somebody }
        defer { crl_unforked_close(descriptor) }
        switch connect(descriptor, to: path) {
        case 0: return ProcessStatus.isEnding(PeerCredentials(of: descriptor)?.pid ?? 0) ? .nobody : .somebody
        case ECONNREFUSED, ENAMETOOLONG: return .nobody
        case ENOENT, ENOTDIR: return .noSocket
        default: return .somebody
        }
    }

    private static func withAddress<R>(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(Wire.longestSocketPath)) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}

/// The credentials of the process at the other end of a local socket, from the kernel (SO_PEERCRED). Control
/// connections accept only processes of this user. At the sockets of ports, `CAcceptGuard` and libzmq's peer filter do
/// the same.
struct PeerCredentials {
    private(set) var pid: pid_t = 0
    private(set) var uid: uid_t = 0
    private(set) var gid: gid_t = 0

    init?(of descriptor: Int32) { guard crl_peer_credentials(descriptor, &pid, &uid, &gid) else { return nil } }

    var isOwnUser: Bool { uid == geteuid() }
}
