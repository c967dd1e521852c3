import Glibc
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// The decisions of a port, without a socket or a thread.
@Suite struct ReceiverValueTests {
    // MARK: Lifecycle

    @Test func `the last turn of other threads finishes an invalid port`() {
        var lifecycle = ReceiverLifecycle()
        for thread in [1, 2, 2] as [Int32] { #expect(lifecycle.beginTurn(thread) == true) }
        #expect(lifecycle.hasTurn(2))
        #expect(!lifecycle.hasTurn(3))
        #expect(lifecycle.invalidate() == true)
        #expect(lifecycle.invalidate() == false)
        #expect(!lifecycle.isOpen)
        #expect(lifecycle.beginTurn(3) == false)
        let finished = Shared(false)
        #expect((lifecycle.finishLater(on: 1, hasEnded: { _ in false }) { finished.withLock { $0 = true } }) == true)
        #expect(lifecycle.endTurn(2) == nil)
        #expect(lifecycle.endTurn(1) == nil)
        lifecycle.endTurn(2)?()
        #expect(finished.withLock { $0 })
        lifecycle.finish()
        #expect(lifecycle.endTurn(2) == nil)
        #expect(lifecycle.beginTurn(1) == false)
    }

    @Test func `a thread's own turns, and those of threads that have ended, hold up nobody`() {
        var lifecycle = ReceiverLifecycle()
        for thread in [1, 2] as [Int32] { _ = lifecycle.beginTurn(thread) }
        #expect((lifecycle.isOthersTurn(on: 1) { _ in false }) == false)
        _ = lifecycle.invalidate()
        #expect((lifecycle.isOthersTurn(on: 1) { _ in false }) == true)
        #expect(!lifecycle.finishLater(on: 1, hasEnded: { $0 == 2 }) {})
        #expect((lifecycle.isOthersTurn(on: 1) { _ in false }) == false)
    }

    // MARK: Statistics

    @Test func `what waits is what all have sent and the port has not taken`() {
        var counts = StatisticsCounts()
        let (one, other, now) = (Incarnation.random(), Incarnation.random(), MonotonicInstant.now)
        counts.note(sent: 5, by: one)
        counts.note(sent: 7, by: other)
        #expect(counts.statistics(taken: 1, ownSent: 1, isEmpty: false, now: now) == .init(received: 1, waiting: 12))
        counts.note(sent: 6, by: one)
        counts.senderDied(one, ProcessIdentity(pid: 7, program: "x"))
        #expect(counts.knownSenderCount == 1)
        #expect(counts.ended.map(\.sinceEmpty) == [6])
        #expect(counts.ended.first?.sender.program == "x")
        #expect(counts.statistics(taken: 1, ownSent: 1, isEmpty: false, now: now) == .init(received: 1, waiting: 13))
        // A process that has only looked the name up displaces nobody.
        for pid in Int32(100)..<200 { counts.unaskedSenderDied(ProcessIdentity(pid: pid, program: "y")) }
        #expect(counts.ended.contains { $0.sender.program == "x" })
        #expect(counts.ended.count == 16)
    }

    @Test func `what does not come to an empty queue for a second is lost`() {
        var counts = StatisticsCounts()
        let now = MonotonicInstant.now
        counts.note(sent: 3, by: .random())
        for wait in [0, 1000] {
            let then = now + .milliseconds(wait)
            #expect(counts.statistics(taken: 0, ownSent: 0, isEmpty: true, now: then) == .init(received: 0, waiting: 3))
        }
        let then = now + .milliseconds(1001)
        #expect(counts.statistics(taken: 0, ownSent: 0, isEmpty: true, now: then) == .init(received: 0, waiting: 0))
        #expect(counts.statistics(taken: 0, ownSent: 1, isEmpty: true, now: then) == .init(received: 0, waiting: 1))
    }

    @Test func `what was sent before the queue was empty does not wait`() {
        var counts = StatisticsCounts()
        let (one, other) = (Incarnation.random(), Incarnation.random())
        counts.note(sent: 10, by: one)
        _ = counts.statistics(taken: 12, ownSent: 2, isEmpty: true, now: .now)
        #expect(counts.sinceEmpty(by: one) == 0)
        #expect(counts.sinceEmpty(ownSent: 2) == 0)
        counts.note(sent: 11, by: one)
        counts.note(sent: 5, by: other)
        #expect(counts.sinceEmpty(by: one) == 1)
        #expect(counts.sinceEmpty(by: other) == 5)
        #expect(counts.sinceEmpty(ownSent: 3) == 1)
        // Only the newest of the ended senders are kept, and none when the queue is empty.
        for pid in 1...100 as ClosedRange<pid_t> {
            let sender = Incarnation.random()
            counts.note(sent: 1, by: sender)
            counts.senderDied(sender, ProcessIdentity(pid: pid, program: nil))
        }
        #expect(counts.ended.count == 16)
        #expect(counts.ended.last?.sender.pid == 100)
        // All that was sent has come.
        _ = counts.statistics(taken: 119, ownSent: 3, isEmpty: true, now: .now)
        #expect(counts.ended.isEmpty)
    }

    @Test func `what is on its way to an empty queue is still its sender's`() {
        var counts = StatisticsCounts()
        let (one, other) = (Incarnation.random(), Incarnation.random())
        counts.note(sent: 10, by: one)
        _ = counts.statistics(taken: 10, ownSent: 0, isEmpty: true, now: .now)
        counts.note(sent: 50, by: other)
        let waiting = counts.statistics(taken: 10, ownSent: 0, isEmpty: true, now: .now).waiting
        #expect(waiting == 50)
        #expect(counts.sinceEmpty(by: other) == 50)
        #expect(counts.sinceEmpty(by: one) == 0)
        counts.senderDied(other, ProcessIdentity(pid: 7, program: "x"))
        #expect(counts.ended.map(\.sinceEmpty) == [50])
        _ = counts.statistics(taken: 20, ownSent: 0, isEmpty: true, now: .now)
        #expect(counts.ended.map(\.sinceEmpty) == [40])
        // The rest was lost with its sender, and others send without end.
        _ = counts.statistics(taken: 21, ownSent: 1, isEmpty: true, now: nil)
        #expect(counts.ended.map(\.sinceEmpty) == [40])
        _ = counts.statistics(taken: 22, ownSent: 2, isEmpty: true, now: .now + .seconds(2))
        #expect(counts.ended.isEmpty)
    }

    @Test func `a queue that is not empty has at least one message, whatever senders say`() {
        var counts = StatisticsCounts()
        counts.note(sent: .max, by: .random())
        counts.note(sent: .max, by: .random())
        #expect(counts.statistics(taken: 0, ownSent: 0, isEmpty: false, now: .now).waiting >= 1)
        counts = StatisticsCounts()
        #expect(counts.statistics(taken: 1, ownSent: 0, isEmpty: false, now: .now) == .init(received: 1, waiting: 1))
    }

    // MARK: Credit

    @Test func `credit is returned in eighths of the limit, to each sender its own, and the rest together`() {
        var credit = CreditReturns(byteLimit: 80)
        #expect(credit.take(9, from: 1) == 0)
        #expect(credit.take(10, from: 2) == 10)
        #expect(credit.take(4, from: 3) == 0)
        #expect(credit.take(1, from: 1) == 10)
        #expect(credit.count == 1)
        #expect(credit.returnAll() == [3: 4])
        #expect(credit.returnAll().isEmpty)
    }

    // MARK: Names

    @Test func `a set that knows its newest element names the next newest after a removal`() {
        var set = RecentSet<String>()
        for name in ["a", "b", "a", "c"] { set.insert(name) }
        #expect(set.elements == ["a", "b", "c"])
        #expect(set.last == "c")
        set.remove("b")
        set.remove("none")
        #expect(set.elements == ["a", "c"])
        #expect(set.last == "c")
        set.insert("b")
        set.remove("c")
        #expect(set.elements == ["a", "b"])
        #expect(set.last == "b")
        set.remove("b")
        #expect(set.elements == ["a"])
        #expect(set.last == "a")
        set.remove("a")
        #expect(set.elements == [])
        #expect(set.last == nil)
    }

    /// Counts how often two are compared.
    private struct Counted: Hashable {
        let number: Int
        let count: Shared<Int>

        static func == (one: Self, other: Self) -> Bool {
            one.count.withLock { $0 += 1 }
            return one.number == other.number
        }
        func hash(into hasher: inout Hasher) { hasher.combine(number) }
    }

    @Test func `a port's names cost each about the same, however many there are`() {
        let (total, count) = (10_000, Shared(0))
        var set = RecentSet<Counted>()
        let elements = (0..<total).map { Counted(number: $0, count: count) }
        for element in elements { set.insert(element) }
        for element in elements.shuffled() { set.insert(element) }
        for element in elements {
            set.remove(element)
            _ = set.last
        }
        #expect(set.last == nil)
        #expect(count.withLock { $0 } < 20 * total)
    }

    // MARK: The end of ports

    @Test func `a sender is looked at once at a time, and again when it comes after it was given up`() {
        var state = FinishState()
        let sender = Incarnation.random()
        state.begin(1, nil)
        var looks = (0..<2).map { _ in state.tell(sender, 1, at: .now)?.look }
        _ = state.giveUp(sender, 1)
        var goOn = [state.goesOn(1, at: sender, 1)]
        looks.append(state.tell(sender, 1, at: .now)?.look)
        goOn.append(state.goesOn(2, at: sender, 1))
        _ = state.finished(sender, 1)
        goOn.append(state.goesOn(2, at: sender, 1))
        #expect(looks == [1, nil, 2])
        #expect(goOn == [false, true, false])
    }

    @Test func `processes that are stopped get their second once for the ends of all ports`() {
        var state = FinishState()
        let (stopped, live, start) = (Incarnation.random(), Incarnation.random(), MonotonicInstant.now)
        let ledger = RequestLedger(RequestNotices())
        func isDone(_ number: UInt64, _ effects: [FinishState.Effect]) -> Bool {
            effects.contains { effect in
                if case .done(let done) = effect { done === state.areDone(number) } else { false }
            }
        }
        state.begin(1, ledger)
        #expect(state.tell(stopped, 1, at: start)?.end == start + .seconds(1))
        #expect(state.tell(live, 1, at: start)?.end == start + .seconds(1))
        #expect(state.tellersEnd(1).isEmpty)
        #expect(state.isFinishing(1))
        #expect(!isDone(1, state.finished(live, 1)))
        #expect(isDone(1, state.giveUp(stopped, 1)))
        // It has finished already.
        #expect(state.giveUp(live, 1).isEmpty)
        state.remove(1)
        // The next port waits for the stopped process no more, but for the other.
        let later = start + .milliseconds(900)
        state.begin(2, ledger)
        #expect(state.tell(stopped, 2, at: later)?.end == start + .seconds(1))
        #expect(state.tell(live, 2, at: later)?.end == later + .seconds(1))
        #expect(state.silence(of: stopped) == start)
        #expect(state.silence(of: live) == nil)
        // It goes on, and tells what it was asked first.
        #expect(state.finished(stopped, 1).isEmpty)
        #expect(state.silence(of: stopped) == nil)
        #expect(state.tell(stopped, 2, at: later)?.end == later + .seconds(1))
        #expect(state.tell(stopped, 3, at: later)?.end == nil)
        _ = state.tellersEnd(2)
        _ = state.connectionEnded(stopped)
        #expect(isDone(2, state.connectionEnded(live)))
    }
}
