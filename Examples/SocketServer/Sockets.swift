import Glibc

struct SocketError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// What a system call has left in `errno`.
    static func last(_ what: String) -> SocketError { SocketError("\(what): \(String(cString: strerror(errno)))") }
}

/// A socket that listens at a path, and whose `accept` does not wait.
func listeningSocket(_ path: String) throws(SocketError) -> Int32 {
    let descriptor = try newSocket(SOCK_NONBLOCK.rawValue)
    guard try withAddress(path, { bind(descriptor, $0, $1) }) == 0, listen(descriptor, SOMAXCONN) == 0 else {
        defer { close(descriptor) }
        if errno == EADDRINUSE { throw SocketError("\(path) exists already: choose another path, or remove it") }
        throw .last(path)
    }
    return descriptor
}

func connectedSocket(_ path: String) throws(SocketError) -> Int32 {
    let descriptor = try newSocket(0)
    guard try withAddress(path, { connect(descriptor, $0, $1) }) == 0 else {
        defer { close(descriptor) }
        throw .last(path)
    }
    return descriptor
}

private func newSocket(_ flags: __socket_type.RawValue) throws(SocketError) -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | flags), 0)
    guard descriptor >= 0 else { throw .last("socket") }
    return descriptor
}

private func withAddress(
    _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
) throws(SocketError) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    // One byte is the zero at the end.
    let room = MemoryLayout.size(ofValue: address.sun_path) - 1
    guard (1...room).contains(path.utf8.count) else {
        throw SocketError("“\(path)” has \(path.utf8.count) bytes: a socket's path has 1 to \(room)")
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return withUnsafePointer(to: address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
}
