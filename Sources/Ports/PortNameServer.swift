/// Gives ports names by which the processes of one user find them. The corresponding class is
/// NSMessagePortNameServer.
///
/// Names live in a registry directory: the one that `$PORTS_DIRECTORY` says, else `$XDG_RUNTIME_DIR/ports`, else
/// `/tmp/ports-UID`. It must be the user's own and closed to others. A name has 1 to 255 bytes, of any characters but
/// NUL; it belongs to a live owner alone, and is free as soon as the owner's process is gone.
public final class PortNameServer: Sendable {
    /// The registry directory.
    public let path: String
    private let ownRuntime: PortRuntime?

    /// The runtime of the ports that are made with this name server, or found by it.
    public var runtime: PortRuntime { ownRuntime ?? .shared }

    /// The name server of the default registry directory.
    public static let shared = PortNameServer(directory: RegistryDirectory.defaultPath)

    /// A name server of its own directory, apart from all others. The directory is made when it is first needed.
    ///
    /// - Parameters:
    ///   - path: An absolute path. Its parent must exist. Sockets are made in it, whose paths must be short.
    ///   - runtime: The runtime of the ports that are made with it, or found by it; nil for ``PortRuntime/shared``.
    public init(directory path: String, runtime: PortRuntime? = nil) {
        self.path = RegistryDirectory.withoutTrailingSlashes(path)
        // The shared runtime is made at its first use: until then, the process may fork.
        ownRuntime = runtime
    }

    /// Whether both are of one directory, however its path is spelled.
    func isSame(as other: PortNameServer) -> Bool {
        guard runtime === other.runtime else { return false }
        if path == other.path { return true }
        guard let directory = try? registryDirectory() else { return false }
        return (try? other.registryDirectory()) === directory
    }

    func registryDirectory() throws(PortError) -> RegistryDirectory { try runtime.registry.directory(path) }
}

extension PortRuntime {
    /// The name server of the runtime's default registry directory.
    public var nameServer: PortNameServer { PortNameServer(directory: directory, runtime: self) }
}
