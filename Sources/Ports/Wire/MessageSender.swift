/// The process that sent a message, according to the kernel. Its name in the API is ``MachPort/Message/Sender``.
public struct MessageSender: Sendable, Hashable {
    /// The process id.
    public let pid: Int32
    /// The effective user when the process connected.
    public let uid: UInt32
    /// The effective group when the process connected.
    public let gid: UInt32
}
