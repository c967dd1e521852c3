import CShims

extension ThreadRunLoop {
    /// Changes of a file or a directory, and of the entries of a directory.
    public struct FileEvents: OptionSet, Sendable, Hashable {
        /// inotify's bits.
        public let rawValue: UInt32

        /// The events of these bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        private init(_ bit: Int32) { rawValue = UInt32(bitPattern: bit) }

        /// The file's contents, or those of a file in the directory, were written or truncated.
        public static let written = FileEvents(IN_MODIFY)
        /// The file, or a file in the directory, was closed by a process that could write to it.
        public static let closedAfterWriting = FileEvents(IN_CLOSE_WRITE)
        /// The owner, permissions, times or link count have changed, of the file or directory or of an entry.
        public static let attributes = FileEvents(IN_ATTRIB)
        /// The file or directory has another path now. It is still watched.
        public static let moved = FileEvents(IN_MOVE_SELF)
        /// A directory has a new entry.
        public static let entryCreated = FileEvents(IN_CREATE)
        /// An entry of a directory was removed.
        public static let entryRemoved = FileEvents(IN_DELETE)
        /// An entry has come from another place, or got this name.
        public static let entryMovedIn = FileEvents(IN_MOVED_TO)
        /// An entry has gone to another place, or lost this name.
        public static let entryMovedOut = FileEvents(IN_MOVED_FROM)

        /// The file or directory was deleted. Always reported, as the last event.
        public static let deleted = FileEvents(IN_DELETE_SELF)
        /// The file system was unmounted. Always reported, as the last event.
        public static let unmounted = FileEvents(IN_UNMOUNT)
        /// Changes came faster than they were handled, and some were lost: check everything again. Always reported.
        public static let overflowed = FileEvents(IN_Q_OVERFLOW)
        /// Reported with another event: the entry is a directory.
        public static let entryIsDirectory = FileEvents(rawValue: UInt32(IN_ISDIR))

        /// All events that a source can ask for.
        public static let all: FileEvents = [
            .written, .closedAfterWriting, .attributes, .moved, .entryCreated, .entryRemoved, .entryMovedIn,
            .entryMovedOut, .deleted,
        ]

        /// The events after which no other comes.
        static let last: FileEvents = [.deleted, .unmounted]
    }

    /// A change of a watched file or directory.
    public struct FileChange: Sendable, Hashable {
        /// The kind of change.
        public let events: FileEvents
        /// The name of the directory's entry that has changed; nil for the watched file or directory itself.
        public let name: String?
        /// The same number for the two events of one move inside one watched directory; 0 for other events.
        public let move: UInt32
    }
}
