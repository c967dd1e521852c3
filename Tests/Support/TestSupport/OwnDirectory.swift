import Glibc

/// The default registry directory of the test process, which is not the user's.
package enum OwnDirectory {
    /// Says where the directory is. The library asks once, at its first use: so each test says it before.
    package static func prepare() { _ = path }

    private static let path: String = {
        let made = TemporaryFolder()
        setenv("PORTS_DIRECTORY", made.path, 1)
        folder = made
        // Registered before the library's own, so it runs after that.
        atexit { folder = nil }
        return made.path
    }()
    nonisolated(unsafe) private static var folder: TemporaryFolder?
}
