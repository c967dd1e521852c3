import Ports
import TypedPorts

extension RequestServer {
    /// Makes a server of a name on NATS, for requests that are marked as `NetworkRequest`. Of several servers of a name,
    /// on any machine, NATS gives each request to one.
    ///
    /// The server takes requests while it runs. It also has a port without a name, for `ping` and for requests of its own
    /// process. Lanes, limits and `finish` are the same for both.
    /// - Parameters:
    ///   - name: The name by which clients find the server, which is the subject of its requests.
    ///   - connection: The connection with NATS.
    ///   - queueLimit: The requests that wait at the port.
    ///   - messageLimit: The largest request, in bytes. NATS has a limit, too.
    ///   - coder: Turns requests and replies into bytes; clients need the same one.
    /// - Throws: `PortError`, as a server of ports; ``NATSError`` when the name cannot be one of NATS.
    public convenience init(
        name: String, on connection: NATSConnection, queueLimit: Int = 1000, messageLimit: Int = 64 << 20,
        coder: any MessageCoder = CBORCoder()
    ) throws {
        try self.init(queueLimit: queueLimit, messageLimit: messageLimit, coder: coder)
        add(try NATSTransport(name, connection, isOnly: true))
    }

    /// Serves also other machines, by NATS, with the same handlers. Call this method before the server runs.
    /// - Parameters:
    ///   - connection: The connection with NATS.
    ///   - name: The name of the service there; nil for the name of the server's port.
    /// - Throws: ``NATSError`` when the name cannot be one of NATS, or the port has none.
    public func serve(on connection: NATSConnection, as name: String? = nil) throws(NATSError) {
        add(try NATSTransport(name ?? port.name ?? "", connection, isOnly: false))
    }
}

extension RequestClient {
    /// Makes a client of the servers that have the name on NATS.
    ///
    /// The requests throw the errors of ports, in which the port is the service. When nobody serves, they throw
    /// `PortError.nameNotFound` at once. A request that may have been handled is sent again only with `mayRepeat`.
    /// - Parameters:
    ///   - name: The name of the servers.
    ///   - connection: The connection with NATS.
    ///   - nameServer: Where each request looks for a server of this machine first; nil to ask by NATS alone.
    ///   - coder: Turns requests and replies into bytes; servers need the same one.
    /// - Throws: ``NATSError`` when the name cannot be one of NATS.
    public init(
        _ name: String, on connection: NATSConnection, localFirst nameServer: PortNameServer? = nil,
        coder: any MessageCoder = CBORCoder()
    ) throws(NATSError) {
        self.init(try NATSRoute(name, connection), localFirst: nameServer, coder: coder)
    }
}
