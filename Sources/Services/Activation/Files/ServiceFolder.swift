import Glibc
import Ports

/// The folder of the service files. A client's word never becomes a path: the folder's own listing has the names.
struct ServiceFolder: Sendable {
    let path: String

    /// - Parameter path: A relative path starts at the working directory.
    init(path: String) { self.path = absolute(path) }

    /// `$PORTS_SERVICES`, else `$XDG_CONFIG_HOME/swift-ports/services`, else `~/.config/swift-ports/services`.
    static var standard: ServiceFolder {
        if let path = environment("PORTS_SERVICES") { return ServiceFolder(path: path) }
        let configuration = environment("XDG_CONFIG_HOME") ?? (environment("HOME") ?? "") + "/.config"
        return ServiceFolder(path: configuration + "/swift-ports/services")
    }

    static let suffix = ".service"
    private static let largestFile = 64 << 10

    func file(of service: String) -> String { "\(path)/\(service)\(Self.suffix)" }

    /// The names of the services, in order. There are none when there is no folder.
    /// - Throws: ``ServiceFileError`` when others can write to the folder, or it can't be read.
    var services: [String] {
        get throws(ServiceFileError) {
            if access(path, F_OK) != 0, errno == ENOENT { return [] }
            try checkFolder()
            let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard let files = Folder.files(descriptor) else {
                throw ServiceFileError(nil, "the folder cannot be read: \(String(cString: strerror(errno)))", in: path)
            }
            let names = files.filter { $0.hasSuffix(Self.suffix) && $0.first != "." }
            return names.map { String($0.dropLast(Self.suffix.count)) }.sorted()
        }
    }

    private func checkFolder() throws(ServiceFileError) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw ServiceFileError(nil, "the folder cannot be read: \(String(cString: strerror(errno)))", in: path)
        }
        defer { close(descriptor) }
        try Self.check(descriptor, path)
    }

    /// Reads the file of one of ``services``.
    func read(_ service: String) throws(ServiceFileError) -> ServiceFile {
        try checkFolder()
        let path = file(of: service)
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw ServiceFileError(nil, "the file cannot be read: \(String(cString: strerror(errno)))", in: path)
        }
        defer { close(descriptor) }
        try Self.check(descriptor, path)
        do {
            return try ServiceFile(try Self.text(of: descriptor))
        } catch {
            var error = error
            error.path = path
            throw error
        }
    }

    private static func text(of descriptor: Int32) throws(ServiceFileError) -> String {
        var bytes: [UInt8] = []
        while true {
            var (size, reason) = (0, Int32(0))
            let part = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
                (size, reason) = (Glibc.read(descriptor, buffer.baseAddress, buffer.count), errno)
                count = max(0, size)
            }
            if size < 0 {
                throw ServiceFileError(nil, "the file cannot be read: \(String(cString: strerror(reason)))")
            }
            if part.isEmpty { break }
            bytes += part
            if bytes.count > largestFile { throw ServiceFileError(nil, "a service file has at most 64 KiB") }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw ServiceFileError(nil, "the file is no text in UTF-8")
        }
        return text
    }

    /// A user who can write a service file can run any program as this user.
    private static func check(_ descriptor: Int32, _ path: String) throws(ServiceFileError) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw ServiceFileError(nil, String(cString: strerror(errno)), in: path)
        }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw ServiceFileError(nil, "it belongs to user \(status.st_uid): it must be yours (chown)", in: path)
        }
        guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw ServiceFileError(nil, "others can write to it: chmod go-w", in: path)
        }
    }
}

/// The path, from the root on. A relative one starts at the working directory.
func absolute(_ path: String) -> String {
    guard path.first != "/", let here = getcwd(nil, 0) else { return path }
    defer { free(here) }
    return "\(String(cString: here))/\(path)"
}

/// The value of an environment variable, unless it is empty.
func environment(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
}
