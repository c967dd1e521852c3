import Glibc

/// Why an operation on a file failed.
enum IOError: Error, Equatable {
    /// A system call failed with this `errno`.
    case system(errno: Int32)
    /// A regular file was needed, and something else is there: a symbolic link, a FIFO, a device.
    case notRegularFile
}

extension IOError: CustomStringConvertible {
    var description: String {
        switch self {
        case .system(let code): String(cString: strerror(code))
        case .notRegularFile: "Not a regular file"
        }
    }
}

/// Makes a system call which returns -1 for an error, and makes it again as often as a signal interrupts it.
@discardableResult
func systemCall<Result: SignedInteger>(_ call: () -> Result) throws(IOError) -> Result {
    while true {
        let result = call()
        if result != -1 { return result }
        let code = errno
        if code != EINTR { throw .system(errno: code) }
    }
}

/// A file descriptor with a single owner, closed at the end of the owner's life.
struct FileDescriptor: ~Copyable {
    let rawValue: Int32

    /// Opens a file. Children started meanwhile by other threads do not inherit the descriptor.
    init(opening path: [UInt8], _ flags: Int32) throws(IOError) {
        rawValue = try systemCall { open(path.cString, flags | O_CLOEXEC) }
    }

    deinit { _ = close(rawValue) }

    /// Gives up the descriptor without closing it.
    consuming func release() -> Int32 {
        let descriptor = rawValue
        discard self
        return descriptor
    }
}

extension [UInt8] {
    /// The bytes as C takes a path: they need not be UTF-8, and must not hold a NUL.
    var cString: [CChar] { map(CChar.init(bitPattern:)) + [0] }
}

extension stat {
    var isRegularFile: Bool { st_mode & S_IFMT == S_IFREG }
    var isDirectory: Bool { st_mode & S_IFMT == S_IFDIR }
}
