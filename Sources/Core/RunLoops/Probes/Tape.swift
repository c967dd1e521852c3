import CRunLoopShims
import RunLoopLocks
import Synchronization

/// The newest events of a loop, in a ring. The loop's thread writes them without a lock, and any thread reads them.
final class Tape: @unchecked Sendable {
    // Sound: the words are atomic, and the other fields belong to the loop's thread.

    struct Entry {
        let ticks: UInt64
        let event: LoopEvent
    }

    private let words: UnsafeMutablePointer<Atomic<UInt64>>
    private let capacity: Int
    /// The number of events whose writing has begun, and the number of written events.
    private let begun = Atomic(0)
    private let written = Atomic(0)
    private let departures = Lock(Departures())

    /// The next tape of the same loop. For the loop's thread.
    var next: Unmanaged<Tape>?
    let clock = TickClock()
    /// The last event and its time. For the loop's thread.
    private var last = (event: LoopEvent.sleeps, ticks: UInt64(0))

    /// - Parameter capacity: Rounded up to a power of two.
    init(capacity: Int) {
        let exponent = Int.bitWidth - (capacity - 1).leadingZeroBitCount
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
        // The clock is expensive, so an event that follows the last one at once has the same time.
        let time = event.follows(last.event) ? last.ticks : clock.ticks()
        last = (event, time)
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
            let ticks = slot[0].load(ordering: .acquiring)
            let bits = slot[1].load(ordering: .acquiring)
            entries.append(Entry(ticks: ticks, event: LoopEvent(bits: bits)))
        }
        // The loop goes on writing, and may have overwritten the oldest events meanwhile.
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

/// The tapes that a loop's thread writes on. The chain retains them, because no other thread knows when the loop's
/// thread is done with a tape.
struct TapeChain {
    private let tapes: [Tape]
    private let first: Unmanaged<Tape>?

    init(_ tapes: [Tape] = []) {
        self.tapes = tapes
        first = tapes.first.map(Unmanaged.passUnretained)
        for (index, tape) in tapes.enumerated() {
            tape.next = index + 1 < tapes.count ? .passUnretained(tapes[index + 1]) : nil
        }
    }

    func write(_ event: LoopEvent) { first?._withUnsafeGuaranteedRef { $0.write(event) } }
}
