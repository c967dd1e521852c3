import CRunLoopShims

/// The events that a source waits for, or that its descriptor is ready for.
public struct RunLoopReadiness: OptionSet, Sendable, Hashable {
    /// epoll's bits.
    public let rawValue: UInt32

    /// The readiness of these bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// There is something to read, or the other side has ended its stream.
    public static let readable = RunLoopReadiness(rawValue: EPOLLIN.rawValue)
    /// There is room to write.
    public static let writable = RunLoopReadiness(rawValue: EPOLLOUT.rawValue)
    /// The other side sends no more. The unread bytes are the last.
    public static let readHangUp = RunLoopReadiness(rawValue: EPOLLRDHUP.rawValue)
    /// The descriptor is in error. Always reported, asked for or not.
    public static let error = RunLoopReadiness(rawValue: EPOLLERR.rawValue)
    /// The other side is gone. Always reported, asked for or not.
    public static let hangUp = RunLoopReadiness(rawValue: EPOLLHUP.rawValue)
}
