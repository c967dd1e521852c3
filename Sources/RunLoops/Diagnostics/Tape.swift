import CRunLoopShims
import RunLoopLocks
import Synchronization

/// The newest events of a loop, in a ring. The loop's thread writes them without a lock, and any thread reads them.
final class Tape: @unchecked Sendable {
    // Sound: the words are atomic, and the two fields that are not belong to the loop's thread.

    struct Entry {
        let time: MonotonicInstant
        let event: LoopEvent
    }

    private let words: UnsafeMutablePointer<Atomic<UInt64>>
    private let capacity: Int
    /// The number of events whose writing has begun, and of those that are written.
    private let begun = Atomic(0)
    private let written = Atomic(0)
    private let departures = Lock(Departures())

    /// The next tape of the same loop. For the loop's thread.
    var next: Unmanaged<Tape>?
    /// The time of the last event, if that was the end of a callout. For the loop's thread.
    private var calloutEnd: UInt64?

    /// - Parameter capacity: Rounded up to a power of two.
    init(capacity: Int) {
        let exponent = Int.bitWidth - (min(max(capacity, 16), 1 << 24) - 1).leadingZeroBitCount
        self.capacity = 1 << exponent
        words = .allocate(capacity: 2 * self.capacity)
        for index in 0..<2 * self.capacity { (words + index).initialize(to: Atomic(0)) }
    }

    deinit {
        words.deinitialize(count: 2 * capacity)
        words.deallocate()
    }

    /// Writes an event on this tape and the next ones. Called on the loop's thread.
    func write(_ event: LoopEvent) {
        // The clock is dear. Between the last callout of a pass and the next pass there is only the loop's own work.
        let time = event.isPass ? calloutEnd ?? crl_now() : crl_now()
        calloutEnd = event.isCalloutEnd ? time : nil
        append(time, event)
        var rest = next
        while let tape = rest {
            rest = tape._withUnsafeGuaranteedRef { tape in
                tape.append(time, event)
                return tape.next
            }
        }
    }

    @inline(__always)
    private func append(_ time: UInt64, _ event: LoopEvent) {
        let count = written.load(ordering: .relaxed)
        let slot = words + 2 * (count & (capacity - 1))
        // A reader that sees one of the new words sees this number, too.
        begun.store(count + 1, ordering: .relaxed)
        slot[0].store(time, ordering: .releasing)
        slot[1].store(event.bits, ordering: .releasing)
        written.store(count + 1, ordering: .releasing)
    }

    var isEmpty: Bool { written.load(ordering: .acquiring) == 0 }

    /// The events that are left, and how many there were before them.
    func read() -> (entries: [Entry], dropped: Int) {
        let end = written.load(ordering: .acquiring)
        let first = max(0, end - capacity)
        var entries: [Entry] = []
        entries.reserveCapacity(end - first)
        for number in first..<end {
            let slot = words + 2 * (number & (capacity - 1))
            let time = slot[0].load(ordering: .acquiring)
            let bits = slot[1].load(ordering: .acquiring)
            entries.append(Entry(time: MonotonicInstant(nanoseconds: time), event: LoopEvent(bits: bits)))
        }
        // The loop goes on writing: the oldest may have been overwritten meanwhile.
        let overwritten = max(0, begun.load(ordering: .relaxed) - capacity - first)
        entries.removeFirst(min(overwritten, entries.count))
        return (entries, end - entries.count)
    }

    // MARK: Labels

    /// Keeps the label of an item that leaves the loop, for the events that have the item's address.
    func noteDeparture(of item: Item) {
        let count = written.load(ordering: .acquiring)
        departures.withLock { $0.note(item, after: count, limit: capacity) }
    }

    /// The labels of the items that have left.
    var departed: Departures { departures.withLock { $0 } }
}
