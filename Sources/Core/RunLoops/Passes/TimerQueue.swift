import HeapModule

/// The timers of a mode, soonest first. Removing an inner entry from a heap is expensive, so the entry of a removed or
/// moved timer stays, with a number that says that it is stale, until it is at the top, or half of the heap is stale.
/// Entries do not retain their timers, because they are dropped under the loop's lock, where no timer may be released.
struct TimerQueue {
    private struct Entry: Comparable {
        let date: MonotonicInstant
        let number: UInt64
        let id: ObjectIdentifier

        static func < (left: Entry, right: Entry) -> Bool { (left.date, left.number) < (right.date, right.number) }
    }

    private struct Member {
        let timer: RunLoopTimer
        /// The number of the timer's entry; 0 when it has none.
        var number: UInt64 = 0
    }

    private var heap = Heap<Entry>()
    private var members: [ObjectIdentifier: Member] = [:]
    private var lastNumber: UInt64 = 0
    /// Whether the entry at the top is known not to be stale.
    private var isTopCurrent = false
    /// The members without an entry, because their callouts are in progress.
    private var firing: Set<ObjectIdentifier> = []

    var isEmpty: Bool { members.isEmpty }
    var timers: [RunLoopTimer] { members.values.map(\.timer) }
    func contains(_ timer: RunLoopTimer) -> Bool { members[ObjectIdentifier(timer)] != nil }

    mutating func insert(_ timer: RunLoopTimer) {
        members[ObjectIdentifier(timer)] = Member(timer: timer)
        requeue(timer)
    }

    mutating func requeue(_ timer: RunLoopTimer) {
        let id = ObjectIdentifier(timer)
        guard contains(timer) else { return }
        isTopCurrent = false
        guard let date = timer.queuedFireDate else {
            members[id]?.number = 0
            firing.insert(id)
            return
        }
        firing.remove(id)
        if heap.count > 2 * members.count + 16 { heap = Heap(heap.unordered.filter(isCurrent)) }
        lastNumber += 1
        members[id]?.number = lastNumber
        heap.insert(Entry(date: date, number: lastNumber, id: id))
    }

    mutating func remove(_ timer: RunLoopTimer) -> Bool {
        firing.remove(ObjectIdentifier(timer))
        isTopCurrent = false
        return members.removeValue(forKey: ObjectIdentifier(timer)) != nil
    }

    /// The soonest date of all timers, also of those whose callouts are in progress.
    mutating func nextFireDate() -> MonotonicInstant? {
        (firing.compactMap { members[$0]?.timer.due } + (soonest().map { [$0] } ?? [])).min()
    }

    mutating func soonest() -> MonotonicInstant? {
        while let entry = heap.min {
            if isTopCurrent || isCurrent(entry) {
                isTopCurrent = true
                return entry.date
            }
            heap.removeMin()
        }
        return nil
    }

    /// The timers that are due, by date, and the date of the next timer. Due timers stay queued until they fire.
    mutating func due(at now: MonotonicInstant) -> (timers: [RunLoopTimer], next: MonotonicInstant?) {
        var entries: [Entry] = []
        while let date = soonest(), date <= now, let entry = heap.popMin() {
            isTopCurrent = false
            entries.append(entry)
        }
        let next = soonest()
        heap.insert(contentsOf: entries)
        isTopCurrent = false
        return (entries.compactMap { members[$0.id]?.timer }, next)
    }

    private func isCurrent(_ entry: Entry) -> Bool { members[entry.id]?.number == entry.number }
}
