import CRunLoopShims
import Glibc
import RunLoops

/// A datagram socket that is connected to the service manager's.
struct NotifySocket: ~Copyable {
    private let descriptor: Int32
    private let address: String

    /// - Parameter address: A path from the root, or `@` and an abstract name, as `NOTIFY_SOCKET` has them.
    init(_ address: String) throws(SystemdError) {
        let connecting = try SocketAddress(address)
        let flags = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, flags, 0)
        guard descriptor >= 0 else {
            let isOut = errno == EMFILE || errno == ENFILE
            throw isOut ? .outOfDescriptors(limit: Descriptor.limit) : .unreachable(address: address, errno: errno)
        }
        guard connecting.connect(descriptor) == 0 else {
            let error = errno
            close(descriptor)
            throw .unreachable(address: address, errno: error)
        }
        (self.descriptor, self.address) = (descriptor, address)
    }

    deinit { close(descriptor) }

    /// Sends a datagram without waiting.
    /// - Returns: False when the manager's socket has no room.
    func send(_ datagram: NotificationDatagram) throws(SystemdError) -> Bool {
        var datagram = datagram
        let sent = datagram.text.withUTF8 { [descriptors = datagram.descriptors] bytes in
            crl_send_packet(descriptor, bytes.baseAddress, bytes.count, descriptors, Int32(descriptors.count))
        }
        if sent == 0 { return true }
        switch errno {
        case EAGAIN: return false
        case EBADF:
            throw .badDescriptor(datagram.descriptors.first { fcntl($0, F_GETFD) < 0 } ?? descriptor)
        case ECONNREFUSED, ENOENT, ENOTCONN: throw .unreachable(address: address, errno: errno)
        case let code: throw .notSent(address: address, errno: code)
        }
    }

    /// Waits until there may be room.
    /// - Returns: False when the deadline came first.
    func waitForRoom(until deadline: MonotonicInstant) -> Bool {
        var asked = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        let milliseconds = (deadline.timeout + 999_999) / 1_000_000
        _ = poll(&asked, 1, Int32(clamping: milliseconds))
        return !deadline.hasPassed
    }
}

/// The address of a local socket.
private struct SocketAddress {
    private var address = sockaddr_un()
    private let size: socklen_t

    init(_ text: String) throws(SystemdError) {
        func bad(_ reason: String) -> SystemdError {
            .badVariable(name: "NOTIFY_SOCKET", value: text, reason: reason)
        }
        let isAbstract = text.hasPrefix("@")
        guard isAbstract || text.hasPrefix("/") else {
            throw bad("it is neither a path from the root nor an @ and a name")
        }
        let most = MemoryLayout.size(ofValue: address.sun_path) - 1
        let bytes = Array(text.utf8)
        guard bytes.count <= most else {
            throw bad("it has \(bytes.count) bytes, and a socket's address \(most) at most")
        }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { path in
            path.copyBytes(from: bytes)
            // Then the name has no end but the address's.
            if isAbstract { path[0] = 0 }
        }
        let start = MemoryLayout.offset(of: \sockaddr_un.sun_path) ?? 2
        size = socklen_t(start + bytes.count + (isAbstract ? 0 : 1))
    }

    func connect(_ descriptor: Int32) -> Int32 {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, size) }
        }
    }
}
