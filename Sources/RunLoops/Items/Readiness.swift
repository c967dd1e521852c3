import CRunLoopShims

extension ThreadRunLoop {
    /// The events that a source waits for, or that its descriptor is ready for.
    public struct Readiness: OptionSet, Sendable, Hashable {
        /// epoll's bits.
        public let rawValue: UInt32

        /// The readiness of these bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        /// There is something to read, or the other side has ended its stream.
        public static let readable = Readiness(rawValue: EPOLLIN.rawValue)
        /// There is room to write.
        public static let writable = Readiness(rawValue: EPOLLOUT.rawValue)
        /// The other side sends no more: the unread bytes are the last.
        public static let readHangUp = Readiness(rawValue: EPOLLRDHUP.rawValue)
        /// The descriptor is in error. Always reported, asked for or not.
        public static let error = Readiness(rawValue: EPOLLERR.rawValue)
        /// The other side is gone. Always reported, asked for or not.
        public static let hangUp = Readiness(rawValue: EPOLLHUP.rawValue)
    }
}
