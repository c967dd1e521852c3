import Glibc

/// A directory of its own for each test, removed in the end with what is in it.
package final class TemporaryFolder: Sendable {
    package let path: String

    package init() {
        // Short, as the paths of sockets have to be.
        var template = Array("\(Self.parent)/pt-XXXXXX".utf8CString)
        precondition(mkdtemp(&template) != nil, "no temporary directory")
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// In memory, where there is such a folder: a disk may keep a test waiting for half a minute, while it writes what a build
    /// has left.
    private static let parent =
        getenv("TMPDIR").map { String(cString: $0) } ?? (access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")

    // Its trees may be deeper than paths reach.
    deinit { Child(["/bin/rm", "-rf", "--", path]).wait() }

    package func write(_ bytes: [UInt8], to name: String) {
        guard let file = fopen("\(path)/\(name)", "w") else { return }
        defer { fclose(file) }
        fwrite(bytes, 1, bytes.count, file)
    }

    package func contents(of name: String) -> [UInt8] { bytes(ofFile: "\(path)/\(name)") }
}
