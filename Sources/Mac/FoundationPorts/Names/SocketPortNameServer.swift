import CoreFoundationPorts
import Dispatch
import Foundation
import Ports
import RunLoopLocks

/// Names for Foundation's socket ports, which all processes of the user on this machine share. The corresponding class is
/// NSSocketPortNameServer.
///
/// A name has one live owner, and is free when the owner's process ends. The names are apart from those of ports and message
/// ports. Any thread may call all methods; those that look a name up wait up to five seconds for its owner.
open class SocketPortNameServer: NSObject, @unchecked Sendable {
    // Sound: what changes is behind the lock.
    /// The port that tells others a socket's address.
    private struct Entry: @unchecked Sendable {
        // Sound: the reference changes under the lock alone.
        let owner: LocalMessagePort
        weak var port: SocketPort?
    }

    private let entries = Lock<[String: Entry]>([:])
    private let number = Lock<UInt16>(SocketPortNameServer.defaultNumber)
    private let names: PortNameServer
    private let parent: PortNameServer
    private let queue = DispatchQueue(label: "SocketPortNameServer")

    /// The number that macOS has.
    private static let defaultNumber: UInt16 = 1550

    private static let shared = SocketPortNameServer(.shared)

    /// Makes a name server with another registry directory than ``sharedInstance()`` has.
    public init(_ nameServer: PortNameServer) {
        parent = nameServer
        names = PortNameServer(directory: "\(nameServer.path)/sockets", runtime: nameServer.runtime)
    }

    /// The name server of the default registry directory.
    open class func sharedInstance() -> SocketPortNameServer { shared }

    /// A number that is kept, and has no effect: names are in the registry directory, and no server listens.
    open var defaultNameServerPortNumber: UInt16 {
        get { number.withLock { $0 } }
        set { number.withLock { $0 = newValue } }
    }

    /// Gives a name to a socket port of this process. A second name of this process for another port replaces the first
    /// port.
    /// - Returns: False when the port is no `SocketPort`, another process has the name, or the registry has failed.
    @discardableResult
    open func registerPort(_ port: Port, name: String) -> Bool {
        guard let port = port as? SocketPort, port.isValid else { return false }
        removePort(forName: name)
        let answer = Address(of: port).bytes
        let owner = logged("registerPort") { () throws(PortError) in
            // The parent of the directory has to exist.
            _ = try parent.registration(forName: "sockets")
            let owner = try LocalMessagePort(name: name, nameServer: names) { _, _ in answer }
            try owner.setQueue(queue)
            return owner
        }
        guard let owner else { return false }
        let former = entries.withLock { $0.updateValue(Entry(owner: owner, port: port), forKey: name) }
        former?.owner.invalidate()
        return true
    }

    /// As ``registerPort(_:name:)``: the number has no effect.
    @discardableResult
    open func registerPort(_ port: Port, name: String, nameServerPortNumber portNumber: UInt16) -> Bool {
        registerPort(port, name: name)
    }

    /// Finds the port of a name: a port to send to its socket; nil when nobody has the name, or the port has become invalid.
    open func port(forName name: String) -> Port? {
        let known = entries.withLock { $0[name] }
        if let known, known.port?.isValid != true {
            removePort(forName: name)
            return nil
        }
        let answer = logged("port(forName:)", unless: \.isNameNotFound) { () throws(PortError) in
            try RemoteMessagePort(name: name, nameServer: names).request(id: 1, nil, timeout: .seconds(5))
        }
        return answer?.flatMap { Address($0) }?.makePort()
    }

    /// Finds the port of a name, on this host only: nil, an empty string, or its name. For another host it returns nil, because
    /// names are those of one machine.
    open func port(forName name: String, host: String?) -> Port? { isHere(host) ? port(forName: name) : nil }

    /// As ``port(forName:host:)``: the number has no effect.
    open func port(forName name: String, host: String?, nameServerPortNumber portNumber: UInt16) -> Port? {
        port(forName: name, host: host)
    }

    /// Takes a name from a port of this process.
    /// - Returns: False when no port of this process has the name.
    @discardableResult
    open func removePort(forName name: String) -> Bool {
        guard let removed = entries.withLock({ $0.removeValue(forKey: name) }) else { return false }
        removed.owner.invalidate()
        return true
    }
}

/// Where a socket port listens.
private struct Address {
    private let numbers: [Int32]
    private let address: [UInt8]

    init(of port: SocketPort) {
        numbers = [port.protocolFamily, port.socketType, port.protocol]
        address = Array(port.address)
    }

    /// Nil for bytes that no name server has sent.
    init?(_ bytes: [UInt8]) {
        guard bytes.count > 12, bytes.count <= 12 + MemoryLayout<sockaddr_storage>.size else { return nil }
        numbers = (0..<3).map { index in
            Int32(bitPattern: bytes[4 * index..<4 * index + 4].reversed().reduce(0) { $0 << 8 | UInt32($1) })
        }
        address = Array(bytes[12...])
    }

    var bytes: [UInt8] {
        numbers.flatMap { number in (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } } + address
    }

    func makePort() -> SocketPort? {
        SocketPort(
            remoteWithProtocolFamily: numbers[0], socketType: numbers[1], protocol: numbers[2], address: Data(address))
    }
}
