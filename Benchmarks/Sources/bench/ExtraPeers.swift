/// A contender between processes that `make bench-all` alone builds.
protocol ExtraPeer: Contender {
    /// The first word of what the child is told; also what the peer is called where it is missing.
    static var role: String { get }
    static var name: String { get }
    /// What the reader of its figures has to know.
    static var note: String? { get }

    /// To a child.
    static func inChild(_ directory: String) throws -> Self
    /// The child's side; does not return.
    static func serve(_ argument: String) throws
}

extension ExtraPeer {
    static var note: String? { nil }

    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws {
        preconditionFailure("only threads of one process send side by side")
    }
}

enum ExtraPeers {
    private static let roles = ["sd-bus", "libqb", "SocketPort", "grpc-swift"]

    /// Those whose libraries were there when this program was built.
    static var built: [any ExtraPeer.Type] {
        var peers: [any ExtraPeer.Type] = []
        #if SD_BUS
            peers.append(SDBusPeer.self)
        #endif
        #if LIBQB
            peers.append(QBPeer.self)
        #endif
        #if SOCKET_PORT
            peers.append(SocketPortPeer.self)
        #endif
        #if GRPC
            peers.append(GRPCPeer.self)
        #endif
        return peers
    }

    /// Which peers are missing, and the notes of the others.
    static var conditions: String {
        let missing = roles.filter { role in !built.contains { $0.role == role } }
        var lines = built.compactMap { peer in peer.note.map { "\(peer.name): \($0)" } }
        if !missing.isEmpty {
            lines.append("missing: \(missing.joined(separator: ", ")) (make bench-all builds them where it can)")
        }
        return lines.map { $0 + "\n" }.joined()
    }
}
