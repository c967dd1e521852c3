import HeapModule

/// The timers of a mode, soonest first.
///
/// A heap cannot give up an inner entry cheaply, so an entry stays when its timer is removed or moved, is known by
/// its date to be out of date, and is dropped when it comes to the top or when half of the heap is such entries.
struct TimerQueue {
    private struct Entry: Comparable {
        let date: MonotonicInstant
        let sequence: UInt64
        let timer: ThreadRunLoop.Timer

        static func < (left: Entry, right: Entry) -> Bool {
            (left.date, left.sequence) < (right.date, right.sequence)
        }

        static func == (left: Entry, right: Entry) -> Bool { left.sequence == right.sequence }
    }

    private var heap = Heap<Entry>()
    private var members: [ObjectIdentifier: ThreadRunLoop.Timer] = [:]
    private var sequence: UInt64 = 0

    var isEmpty: Bool { members.isEmpty }
    var timers: some Collection<ThreadRunLoop.Timer> { members.values }

    func contains(_ timer: ThreadRunLoop.Timer) -> Bool { members[ObjectIdentifier(timer)] != nil }

    mutating func insert(_ timer: ThreadRunLoop.Timer) {
        members[ObjectIdentifier(timer)] = timer
        requeue(timer)
    }

    /// Takes note of the timer's present fire date.
    mutating func requeue(_ timer: ThreadRunLoop.Timer) {
        guard contains(timer), let date = timer.queuedFireDate else { return }
        if heap.count > 2 * members.count + 16 { compact() }
        sequence += 1
        heap.insert(Entry(date: date, sequence: sequence, timer: timer))
    }

    mutating func remove(_ timer: ThreadRunLoop.Timer) -> Bool {
        members.removeValue(forKey: ObjectIdentifier(timer)) != nil
    }

    /// When the next timer is due.
    mutating func soonest() -> MonotonicInstant? {
        while let entry = heap.min {
            if isCurrent(entry) { return entry.date }
            heap.removeMin()
        }
        return nil
    }

    /// Takes the timers out that are due; each comes back when it is queued again.
    mutating func removeDue(at now: MonotonicInstant) -> [ThreadRunLoop.Timer] {
        var due: [ThreadRunLoop.Timer] = []
        while let entry = heap.min, entry.date <= now || !isCurrent(entry) {
            heap.removeMin()
            if isCurrent(entry) { due.append(entry.timer) }
        }
        return due
    }

    private func isCurrent(_ entry: Entry) -> Bool {
        contains(entry.timer) && entry.timer.queuedFireDate == entry.date
    }

    private mutating func compact() {
        heap = Heap(heap.unordered.filter(isCurrent))
    }
}
