/// Names by which the processes of one user find ports. The corresponding class is NSMessagePortNameServer.
/// Names live in a registry directory: `$PORTS_DIRECTORY`, else `$XDG_RUNTIME_DIR/ports`, else `/tmp/ports-UID`, closed
/// to other users. A name has 1 to 255 bytes of UTF-8, without NUL, and one live owner, with whose process it ends.
public final class PortNameServer: Sendable {
    /// The registry directory.
    public let path: String
    private let ownRuntime: PortRuntime?

    /// The most bytes of a name.
    package static var longestName: Int { NameEntry.longestName }

    /// The runtime of the ports that this name server makes or finds.
    public var runtime: PortRuntime { ownRuntime ?? .shared }

    /// The name server of the default registry directory.
    public static let shared = PortNameServer(directory: DefaultDirectory.choice.path)

    /// Makes a name server with a directory of its own, which is made at the first use. Its path is a short absolute
    /// one, whose parent must exist. Without a runtime, the ports belong to ``PortRuntime/shared``.
    public init(directory path: String, runtime: PortRuntime? = nil) {
        self.path = DefaultDirectory.withoutTrailingSlashes(path)
        // The shared runtime is made at its first use, so that the process may fork before.
        ownRuntime = runtime
    }

    /// Whether both name servers use one directory, however its path is spelled.
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
