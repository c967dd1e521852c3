/// The process that sent a message, in the kernel's words. ``MachPort/Message/Sender`` is its name in the API.
public struct MessageSender: Sendable, Hashable {
    /// Its process id.
    public let pid: Int32
    /// Its effective user when it connected.
    public let uid: UInt32
    /// Its effective group when it connected.
    public let gid: UInt32
}
