extension ThreadRunLoop {
    /// The points of a run at which observers are called. The corresponding CF type is `CFRunLoopActivity`, and the
    /// bits are the same.
    public struct Activity: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: UInt32

        /// The points of these bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        /// A run begins.
        public static let entry = Activity(rawValue: 1 << 0)
        /// A pass begins; the loop is about to check its timers.
        public static let beforeTimers = Activity(rawValue: 1 << 1)
        /// The loop is about to check its sources.
        public static let beforeSources = Activity(rawValue: 1 << 2)
        /// The loop is about to sleep.
        public static let beforeWaiting = Activity(rawValue: 1 << 5)
        /// The loop has woken up, and has not yet served the event that woke it.
        public static let afterWaiting = Activity(rawValue: 1 << 6)
        /// A run ends.
        public static let exit = Activity(rawValue: 1 << 7)
        /// All points.
        public static let all = Activity(rawValue: 0x0FFF_FFFF)
    }
}
