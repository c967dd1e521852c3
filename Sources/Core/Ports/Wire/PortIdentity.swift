/// A port in texts: its name, and its owner's program and pid, as far as this process knows them. The text is one of
/// “port “clock” of clockd (pid 4711)”, “port 3 of clockd (pid 4711)” and “port 3 of process bb278612”. A service on
/// other machines is no port, and errors name it as “service “clock” on nats://10.0.0.5:4222”.
///
/// Two identities are equal when they name the same port, whatever else is known. The facts are those of the moment
/// when the identity was made. They stay after the owner's end.
public struct PortIdentity: Hashable, Sendable, CustomStringConvertible {
    /// Shared, so that an error is small.
    private final class Facts: Sendable {
        let id: PortID
        let name: String?
        let owner: ProcessIdentity?
        /// Where a service on other machines is reached; nil for a port.
        let network: String?

        init(id: PortID, name: String?, owner: ProcessIdentity?, network: String? = nil) {
            (self.id, self.name, self.owner, self.network) = (id, name, owner, network)
        }
    }

    private let facts: Facts

    init(_ id: PortID, name: String? = nil, owner: ProcessIdentity? = nil) {
        facts = Facts(id: id, name: name, owner: owner)
    }

    /// Makes the identity of a service that other machines serve.
    /// - Parameter network: Where the service is reached.
    package init(service name: String, network: String) {
        let digest = "\(name)\n\(network)".utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) {
            ($0 ^ UInt64($1)) &* 0x100_0000_01b3
        }
        let id = PortID(incarnation: Incarnation(bits: UInt128(digest)), number: 0)
        facts = Facts(id: id, name: name, owner: nil, network: network)
    }

    /// Whether the identity is of a port, and not of a service on other machines.
    package var isPort: Bool { facts.network == nil }

    /// The unique identity of the port.
    public var id: PortID { facts.id }

    /// The registered name, or the last one; nil when the port never had a name, or this process does not know it. Of
    /// several names, the newest.
    public var name: String? { facts.name }

    /// The process id of the owner; nil when it is not known.
    public var pid: Int32? { owner.flatMap { $0.pid > 0 ? $0.pid : nil } }

    /// The name of the owner's program, without folders; nil when it is not known.
    public var program: String? { owner?.program }

    /// Whether two identities name the same port.
    public static func == (left: PortIdentity, right: PortIdentity) -> Bool { left.id == right.id }

    /// Hashes the ``id``.
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }

    /// The name, or else the number, and the owner.
    public var description: String {
        if let network = facts.network { return "service \((name ?? "").quoted) on \(network.printable)" }
        let port = name.map { "port \($0.quoted)" } ?? "port \(id.number)"
        return "\(port) of \(ownerText)"
    }

    var owner: ProcessIdentity? { facts.owner }
    /// The remedy when the port has ended.
    var nextText: String { name == nil ? "ask its owner for a new right" : "look its name up again" }
    /// The owner's program and process.
    package var ownerText: String { owner?.description ?? id.incarnation.shortDescription }
}

/// A process in texts: its program and its pid.
package struct ProcessIdentity: Hashable, Sendable, CustomStringConvertible {
    /// 0 when the process has no id in this process's pid namespace.
    package let pid: Int32
    /// The name of the program's file.
    package let program: String?

    package init(pid: Int32, program: String?) { (self.pid, self.program) = (pid, program) }

    /// The program and the pid.
    package var description: String {
        switch (program, pid) {
        case (let program?, 0): program.printable
        case (let program?, _): "\(program.printable) (pid \(pid))"
        case (nil, 0): "a process without an id here"
        case (nil, _): "process \(pid)"
        }
    }
}
