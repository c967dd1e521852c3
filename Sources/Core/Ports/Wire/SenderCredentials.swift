/// The process that sent a message, according to the kernel.
public struct SenderCredentials: Sendable, Hashable {
    /// The process id.
    public let pid: Int32
    /// The effective user when the process connected.
    public let uid: UInt32
    /// The effective group when the process connected.
    public let gid: UInt32
}

extension SenderCredentials {
    /// Reads "localhost:UID:GID:PID", libzmq's `Peer-Address`.
    init?(peerAddress text: UnsafeBufferPointer<UInt8>) {
        let parts = text.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        let fields = parts.dropFirst().suffix(3).map { UInt32(String(decoding: $0, as: UTF8.self)) }
        guard fields.count == 3, let uid = fields[0], let gid = fields[1],
            let pid = fields[2].flatMap(Int32.init(exactly:))
        else { return nil }
        self.init(pid: pid, uid: uid, gid: gid)
    }
}
