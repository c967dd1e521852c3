import CRunLoopShims
import Glibc
import Synchronization

extension ThreadRunLoop.Source1 {
    /// A source for changes of a file or a directory. The handler is called on the loop's thread, once for each change.
    ///
    /// The source watches the file, wherever it is moved to, not the path; it follows a link. After a deletion, which
    /// is how many programs save a file, the source is invalid. Subdirectories of a watched directory are not watched.
    ///
    /// Each source takes a descriptor, one more for each mode, and one of the user's inotify instances, often 128.
    /// - Throws: ``RunLoopError``: `noSuchFile`, `noPermission`, `outOfFileSources`, `outOfFileWatches`…
    public static func file(
        _ path: String, _ events: ThreadRunLoop.FileEvents = .all,
        handler: @escaping @Sendable (ThreadRunLoop.FileChange) -> Void
    ) throws(RunLoopError) -> ThreadRunLoop.Source1 { try files([(path, events)], handler: handler) }

    /// A source for several files, which takes one inotify instance, and is invalid when the first of them is deleted.
    package static func files(
        _ files: [(path: String, events: ThreadRunLoop.FileEvents)],
        handler: @escaping @Sendable (ThreadRunLoop.FileChange) -> Void
    ) throws(RunLoopError) -> ThreadRunLoop.Source1 {
        if crl_is_forked() { throw .forked }
        let watch = try FileWatch(files)
        return ThreadRunLoop.Source1(descriptor: watch.descriptor, label: "file \(files[0].path)") { turn in
            var handledAny = false
            while turn.next(), let change = watch.next(turn) {
                handledAny = true
                if !change.events.isDisjoint(with: .last) { turn.source.invalidate() }
                handler(change)
            }
            return handledAny
        }
    }
}

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
        /// Changes came faster than they were handled, and some were lost, so check everything again. Always reported.
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

private final class FileWatch: Sendable {
    let descriptor: Int32

    /// Changes that were read and not yet reported, the next one last, because a read returns several.
    private let unread = Mutex<[ThreadRunLoop.FileChange]>([])

    init(_ files: [(path: String, events: ThreadRunLoop.FileEvents)]) throws(RunLoopError) {
        descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        guard descriptor >= 0 else {
            guard errno == EMFILE else { throw .last("inotify_init1") }
            // Either no descriptor is left, which this throws, or no inotify instance.
            _ = try EventDescriptor()
            throw .outOfFileSources(limit: Self.limit(of: "instances"))
        }
        for (path, events) in files {
            let mask = events.intersection(.all).union(.deleted).rawValue
            if !path.utf8.contains(0), inotify_add_watch(descriptor, path, mask) >= 0 { continue }
            switch path.utf8.contains(0) ? ENOENT : errno {
            case ENOENT, ENOTDIR: throw .noSuchFile(path: path)
            case EACCES: throw .noPermission(path: path)
            case ENOSPC: throw .outOfFileWatches(limit: Self.limit(of: "watches"))
            default: throw .last("inotify_add_watch")
            }
        }
    }

    deinit { close(descriptor) }

    func next(_ turn: borrowing ThreadRunLoop.Turn) -> ThreadRunLoop.FileChange? {
        unread.withLock { unread in
            if unread.isEmpty { unread = read().reversed() }
            let change = unread.popLast()
            // Under the lock, because two loops must not clear and raise in another order than they read.
            if unread.isEmpty { turn.source.clear() } else { turn.source.raise(during: turn) }
            return change
        }
    }

    private func read() -> [ThreadRunLoop.FileChange] {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: MemoryLayout<inotify_event>.alignment) { buffer in
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            var changes: [ThreadRunLoop.FileChange] = []
            var offset = 0
            while offset + MemoryLayout<inotify_event>.size <= count {
                let event = buffer.load(fromByteOffset: offset, as: inotify_event.self)
                offset += MemoryLayout<inotify_event>.size
                // Padded with zeros.
                let name = buffer[offset..<offset + Int(event.len)].prefix { $0 != 0 }
                offset += Int(event.len)
                // The kernel has removed the watch; an earlier event has reported the reason.
                guard event.mask & UInt32(IN_IGNORED) == 0 else { continue }
                var events = ThreadRunLoop.FileEvents(rawValue: event.mask)
                // Redundant for the watched directory itself.
                if name.isEmpty { events.remove(.entryIsDirectory) }
                let entry = name.isEmpty ? nil : String(decoding: name, as: UTF8.self)
                changes.append(.init(events: events, name: entry, move: event.cookie))
            }
            return changes
        }
    }

    /// The user's limit, the lower of the whole system's and the user namespace's.
    private static func limit(of kind: String) -> Int {
        let limits = ["/proc/sys/fs/inotify/max_user_\(kind)", "/proc/sys/user/max_inotify_\(kind)"]
        return limits.compactMap { Descriptor.text(of: $0).flatMap { Int($0.prefix { $0 != "\n" }) } }.min() ?? .max
    }
}
