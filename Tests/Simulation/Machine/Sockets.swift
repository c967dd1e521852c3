import Glibc

/// A local socket of packets. A stream's bytes are packets, too.
final class SocketFile: OpenFile {
    struct Packet {
        let bytes: [UInt8]
        let files: [OpenFile]
    }

    let isStream: Bool
    private(set) var peer: SocketFile?
    private var hasPeer = false
    private var inbox: [Packet] = []
    private var isReset = false
    private var isShut = false
    /// Where it listens or has connected to.
    var path = ""
    /// The process at the other end.
    private(set) var peerPid: Int32 = 0

    // A listener.
    private(set) var isListening = false
    private var listenerPid: Int32 = 0
    private var backlog: [SocketFile] = []
    private var mostWaiting = 0

    /// The packets that wait at the other end at most. The kernel has room for some more.
    private let capacity: Int

    init(isStream: Bool) {
        self.isStream = isStream
        // A bell that counts on the room of `SO_SNDBUF` is never full.
        capacity = machine.chance.number(in: isStream ? 60...80 : 6...80)
    }

    static func pair(isStream: Bool, _ pid: Int32) -> (SocketFile, SocketFile) {
        let ends = (SocketFile(isStream: isStream), SocketFile(isStream: isStream))
        ends.0.join(ends.1)
        (ends.0.peerPid, ends.1.peerPid) = (pid, pid)
        return ends
    }

    private func join(_ other: SocketFile) {
        (peer, other.peer) = (other, self)
        (hasPeer, other.hasPeer) = (true, true)
    }

    // MARK: Connections

    func listen(_ pid: Int32, backlog most: Int) {
        (isListening, listenerPid, mostWaiting) = (true, pid, max(1, min(most, 128)))
        noteChange()
    }

    func connect(to listener: SocketFile?, _ pid: Int32) -> Int32 {
        guard let listener, listener.isListening, !listener.isClosed, listener.isStream == isStream else {
            return -ECONNREFUSED
        }
        if hasPeer { return -EISCONN }
        guard listener.backlog.count < listener.mostWaiting else { return -EAGAIN }
        let accepted = SocketFile(isStream: isStream)
        join(accepted)
        peerPid = listener.listenerPid
        accepted.peerPid = pid
        path = listener.path
        accepted.references += 1
        listener.backlog.append(accepted)
        listener.noteChange()
        return 0
    }

    /// The caller takes over the reference.
    func accept() -> SocketFile? { backlog.isEmpty ? nil : backlog.removeFirst() }

    override func close() {
        for waiting in backlog { waiting.release() }
        backlog = []
        isListening = false
        if let peer {
            // The kernel's way to say that something was not read.
            if !inbox.isEmpty { peer.isReset = true }
            peer.peer = nil
            peer.noteChange()
        }
        peer = nil
        drop()
    }

    private func drop() {
        for file in inbox.flatMap(\.files) { file.release() }
        inbox = []
    }

    func shutDown() {
        isShut = true
        peer?.isShut = true
        noteChange()
        peer?.noteChange()
    }

    // MARK: Packets

    private var hasRoom: Bool { peer.map { $0.inbox.count < capacity } ?? true }
    private var isOver: Bool { hasPeer && peer == nil || isShut }

    func send(_ bytes: [UInt8], _ files: [OpenFile]) -> Int32 {
        guard hasPeer else { return -ENOTCONN }
        guard let peer, !isShut else { return -EPIPE }
        guard hasRoom else { return -EAGAIN }
        for file in files { file.references += 1 }
        peer.inbox.append(Packet(bytes: bytes, files: files))
        peer.noteChange()
        return Int32(bytes.count)
    }

    enum Received {
        case packet(Packet)
        case end
        case failure(Int32)
    }

    func receive() -> Received {
        if !inbox.isEmpty {
            let wasFull = inbox.count >= peer?.capacity ?? .max
            defer { if wasFull { peer?.noteChange() } }
            return .packet(inbox.removeFirst())
        }
        if isReset {
            isReset = false
            return .failure(-ECONNRESET)
        }
        if isOver { return .end }
        return .failure(hasPeer ? -EAGAIN : -ENOTCONN)
    }

    /// Takes all bytes of a stream, up to those that have files.
    func receiveAll(_ most: Int) -> Received {
        if inbox.first?.files.isEmpty == false { return receive() }
        var bytes: [UInt8] = []
        while bytes.count < most, inbox.first?.files.isEmpty == true,
            case .packet(let packet)? = inbox.isEmpty ? nil : receive()
        { bytes += packet.bytes }
        return bytes.isEmpty ? receive() : .packet(Packet(bytes: bytes, files: []))
    }

    var unreadByPeer: Int { peer?.inbox.reduce(0) { $0 + max(1, $1.bytes.count) } ?? 0 }
    override var kind: String {
        "\(isStream ? "streams" : "packets")\(isListening ? " listening" : "")\(hasPeer && peer == nil ? " ended" : "")\(inbox.isEmpty ? "" : " unread")"
    }
    var unread: Int { inbox.reduce(0) { $0 + $1.bytes.count } }
    var isConnected: Bool { hasPeer && peer != nil }

    override var readiness: UInt32 {
        if isListening { return backlog.isEmpty ? 0 : Ready.readable }
        var ready: UInt32 = 0
        if !inbox.isEmpty || isOver || isReset { ready |= Ready.readable }
        if hasPeer, isOver || hasRoom { ready |= Ready.writable }
        if isOver { ready |= Ready.readHangUp | Ready.hangUp }
        if isReset { ready |= Ready.error }
        return ready
    }
}
