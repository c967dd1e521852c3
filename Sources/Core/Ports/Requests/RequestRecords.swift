import RunLoops

/// The entries of a ``RequestLedger``, and its decisions.
struct RequestRecords: Sendable {
    struct Entry: Sendable {
        /// The asker's port for the reply.
        let asker: PortID
        let number: UInt64
        /// The message's id.
        let subject: UInt32
        let since = MonotonicInstant.now
        fileprivate let serial: UInt64
        fileprivate var stage = Stage.waiting(nil)

        var id: RequestID { RequestID(asker: asker.incarnation, number: number) }
        /// Whether a reply was made: it waits for room at the asker's port.
        var isReplying: Bool { if case .waiting = stage { false } else { true } }
    }

    /// The way of a request to its end, which removes the entry.
    enum Stage: Equatable {
        /// There is no reply. Perhaps one was too large for the asker.
        case waiting(TooLarge?)
        /// A reply is being sent. After an error, another may follow.
        case replying(TooLarge?)
        /// The reply waits for room, and no other may follow.
        case posted
    }

    /// The size of a reply that was too large, and the asker's limit.
    struct TooLarge: Equatable {
        let size: Int
        let limit: Int
    }

    /// The place of an entry, which leads nowhere after the entry's end.
    struct Place: Equatable {
        fileprivate let index: Int
        fileprivate let serial: UInt64
    }

    /// An array, because each request would pay for a hash table several times.
    private var entries: [Entry?] = []
    private var free: [Int] = []
    private var lastSerial: UInt64 = 0
    /// Processes that do not read. Replies to them may never leave.
    private var silent: Set<Incarnation> = []
    var isFinishing = false

    private static let mostKept = 1024

    var count: Int { entries.count - free.count }
    var isEmpty: Bool { count == 0 }

    /// Whether the port takes no more requests and waits for no reply.
    var isDone: Bool {
        guard isFinishing, !isEmpty else { return isFinishing }
        return !silent.isEmpty
            && entries.allSatisfy { $0.map { $0.isReplying && silent.contains($0.asker.incarnation) } ?? true }
    }

    func forEach(_ body: (Entry) -> Void) { for case let entry? in entries { body(entry) } }
    func has(_ request: RequestID) -> Bool { entries.contains { $0?.id == request } }

    mutating func note(_ asker: Incarnation, isSilent: Bool) {
        if isSilent { silent.insert(asker) } else { silent.remove(asker) }
    }

    // MARK: The way of a request

    /// - Returns: Nil when the port takes no more requests.
    mutating func begin(_ asker: PortID, number: UInt64, subject: UInt32) -> Place? {
        if isFinishing { return nil }
        lastSerial += 1
        let index = free.popLast() ?? entries.count
        if index == entries.count { entries.append(nil) }
        entries[index] = Entry(asker: asker, number: number, subject: subject, serial: lastSerial)
        return Place(index: index, serial: lastSerial)
    }

    /// Nil after the end.
    subscript(place: Place) -> Stage? {
        guard place.index < entries.count, let entry = entries[place.index] else { return nil }
        return entry.serial == place.serial ? entry.stage : nil
    }

    /// Begins a reply, or the end without one.
    /// - Returns: Whether there was none, and the sizes of one that was too large.
    mutating func reply(_ place: Place) -> (isFirst: Bool, tooLarge: TooLarge?) {
        guard case .waiting(let tooLarge)? = self[place] else { return (false, nil) }
        entries[place.index]?.stage = .replying(tooLarge)
        return (true, tooLarge)
    }

    /// The reply was not sent.
    mutating func giveBack(_ place: Place, _ tooLarge: TooLarge? = nil) {
        if case .replying(let former)? = self[place] { entries[place.index]?.stage = .waiting(tooLarge ?? former) }
    }

    /// - Returns: False after the end.
    mutating func post(_ place: Place) -> Bool {
        guard case .replying? = self[place] else { return false }
        entries[place.index]?.stage = .posted
        return true
    }

    mutating func end(_ place: Place) {
        guard self[place] != nil else { return }
        entries[place.index] = nil
        free.append(place.index)
        // The room of many entries is freed.
        if isEmpty, entries.count > Self.mostKept { (entries, free) = ([], []) }
    }
}
