/// The process that sent a message, according to the kernel.
public struct MessageSender: Sendable, Hashable {
    /// The process id.
    public let pid: Int32
    /// The effective user when the process connected.
    public let uid: UInt32
    /// The effective group when the process connected.
    public let gid: UInt32
}

extension MessageSender {
    /// Reads "localhost:UID:GID:PID". By hand and from behind: a message that is traced or monitored waits for this.
    init?(peerAddress text: UnsafeBufferPointer<UInt8>) {
        var end = text.count
        func popLast() -> UInt32? {
            var (start, value, scale) = (end, 0 as UInt64, 1 as UInt64)
            while start > 0, end - start < 10, case let digit = text[start - 1] &- UInt8(ascii: "0"), digit < 10 {
                value += UInt64(digit) * scale
                scale *= 10
                start -= 1
            }
            guard start < end, start > 0, text[start - 1] == UInt8(ascii: ":") else { return nil }
            end = start - 1
            return UInt32(exactly: value)
        }
        guard let pid = popLast().flatMap({ Int32(exactly: $0) }), let gid = popLast(), let uid = popLast()
        else { return nil }
        self.init(pid: pid, uid: uid, gid: gid)
    }
}
