/// How a program connects with NATS.
public struct NATSOptions: Sendable {
    /// How a program proves who it is.
    public enum Authentication: Sendable {
        /// A name and a password. A URL may hold them, too: `nats://user:password@host`.
        case user(String, password: String)
        /// A token.
        case token(String)
        /// A public key and the file of its seed.
        case nkey(publicKey: String, seedFile: String)
        /// A file of credentials, as `nsc` makes it.
        case credentials(file: String)
    }

    /// An encrypted connection. The server's certificate is always checked, and has to name the server's host.
    public struct TLS: Sendable {
        /// The file of the trusted authorities' certificates; nil for those of the system.
        public var authoritiesFile: String?
        /// The file of this program's own certificate, for servers that ask for one.
        public var certificateFile: String?
        /// The file of the certificate's key.
        public var keyFile: String?

        /// Makes the options.
        public init(authoritiesFile: String? = nil, certificateFile: String? = nil, keyFile: String? = nil) {
            (self.authoritiesFile, self.certificateFile, self.keyFile) = (authoritiesFile, certificateFile, keyFile)
        }
    }

    /// The name of the connection in the monitoring of NATS; nil for none.
    public var name: String?
    /// How the program proves who it is; nil when the URL says it, or the server does not ask.
    public var authentication: Authentication?
    /// Encryption; nil for none, unless the URL begins with `tls:`.
    public var tls: TLS?
    /// Whether a connection to another machine is allowed without encryption or without authentication. Then anybody in
    /// the network may read and send requests. The default is false.
    public var allowsUnprotected = false
    /// The longest wait for a server, at the beginning and at each attempt to reconnect.
    public var connectTimeout: Duration = .seconds(2)
    /// Where the program gets replies. The user needs the permission to subscribe to it, and the servers to publish.
    public var inboxPrefix = "_INBOX"

    /// Makes options without authentication and encryption.
    public init(
        name: String? = nil, authentication: Authentication? = nil, tls: TLS? = nil, allowsUnprotected: Bool = false
    ) {
        (self.name, self.authentication, self.tls) = (name, authentication, tls)
        self.allowsUnprotected = allowsUnprotected
    }
}

/// Why a connection with NATS cannot be made or used.
public enum NATSError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The text is no URL of a NATS server.
    case badURL(String)
    /// The name of a service is no subject of NATS.
    case badName(String)
    /// The server is on another machine, and the connection has no encryption or no authentication.
    case unprotected(url: String)
    /// No server could be reached, or a file of the options cannot be used.
    case cannotConnect(url: String, reason: String)
    /// The server does not let the program in: the user, the token, the key or the credentials are not those that it knows, or
    /// have expired. A connection that was there before has ended: make another when the server lets the program in again.
    case refused(url: String, identity: String, reason: String)
    /// The connection was closed by the program, or by NATS for good.
    case closed(url: String)

    /// A sentence with the remedy.
    public var description: String {
        switch self {
        case .badURL(let url): "“\(url)” is no URL of a NATS server: write nats://host:4222, or tls://host:4222"
        case .badName(let name):
            "“\(name)” cannot be a service's name on NATS: use letters, digits, dots, hyphens and underscores"
        case .unprotected(let url):
            "\(url) is on another machine, where anybody may read and send requests: use TLS and authentication, or set "
                + "allowsUnprotected"
        case .cannotConnect(let url, let reason): "cannot connect to \(url): \(reason)"
        case .refused(let url, let identity, let reason): "\(url) refuses \(identity): \(reason)"
        case .closed(let url): "the connection to \(url) is closed: make another"
        }
    }
}
