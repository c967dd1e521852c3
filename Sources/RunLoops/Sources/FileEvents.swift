import CRunLoopShims

extension ThreadRunLoop {
    /// What can happen to a file or a directory, and to the entries of a directory.
    public struct FileEvents: OptionSet, Sendable, Hashable {
        /// inotify's bits.
        public let rawValue: UInt32

        /// The events of these bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        private init(_ bit: Int32) { rawValue = UInt32(bitPattern: bit) }

        /// Its contents were written or cut off; of a directory: those of a file in it.
        public static let written = FileEvents(IN_MODIFY)
        /// Somebody who could write has closed it; of a directory: a file in it.
        public static let closedAfterWriting = FileEvents(IN_CLOSE_WRITE)
        /// Its owner, permissions, times or number of links have changed; of a directory: or those of an entry.
        public static let attributes = FileEvents(IN_ATTRIB)
        /// It has another path now. It is still watched.
        public static let moved = FileEvents(IN_MOVE_SELF)
        /// A directory has a new entry.
        public static let entryCreated = FileEvents(IN_CREATE)
        /// An entry of a directory was removed.
        public static let entryRemoved = FileEvents(IN_DELETE)
        /// An entry has come from another place, or got this name.
        public static let entryMovedIn = FileEvents(IN_MOVED_TO)
        /// An entry has gone to another place, or lost this name.
        public static let entryMovedOut = FileEvents(IN_MOVED_FROM)

        /// What is watched is no more. Always told, and the last that is.
        public static let deleted = FileEvents(IN_DELETE_SELF)
        /// The file system of what is watched is no longer mounted. Always told, and the last that is.
        public static let unmounted = FileEvents(IN_UNMOUNT)
        /// Changes came faster than they were handled, and some were lost: look at everything again. Always told.
        public static let overflowed = FileEvents(IN_Q_OVERFLOW)
        /// Told with another event: the entry is a directory.
        public static let entryIsDirectory = FileEvents(rawValue: UInt32(IN_ISDIR))

        /// All that can be asked for.
        public static let all: FileEvents = [
            .written, .closedAfterWriting, .attributes, .moved, .entryCreated, .entryRemoved, .entryMovedIn,
            .entryMovedOut, .deleted,
        ]

        /// After one of these nothing more is told.
        static let last: FileEvents = [.deleted, .unmounted]
    }

    /// One thing that has happened to a watched file or directory.
    public struct FileChange: Sendable, Hashable {
        /// What has happened.
        public let events: FileEvents
        /// The name of the directory's entry that it happened to; nil when it happened to what is watched itself.
        public let name: String?
        /// The same number for the two events of one move inside one watched directory; 0 for other events.
        public let move: UInt32
    }
}
