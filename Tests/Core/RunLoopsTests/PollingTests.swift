import CRunLoopShims
import Oracle
import OwnThread
import Synchronization
import TestSupport
import Testing

@testable import RunLoops

/// How a loop waits awake for a source's work.
@Suite(.ownThread) struct PollingTests {
    /// A source whose work is a count, of which no descriptor tells.
    private final class Work: Sendable {
        let count = Atomic(0)
        let handled = Atomic(0)
        /// How often the source had a turn without work.
        let empty = Atomic(0)
        private let event = madeEvent()

        func source() -> ThreadRunLoop.Source1 {
            ThreadRunLoop.Source1(
                descriptor: event.descriptor, duplicates: false,
                hasWork: { [self] in count.load(ordering: .acquiring) > 0 }
            ) { [self] turn in
                event.clear()
                let work = count.exchange(0, ordering: .acquiringAndReleasing)
                handled.add(work, ordering: .relaxed)
                if work == 0 { empty.add(1, ordering: .relaxed) }
                if !turn.source.poll(during: turn) {
                    turn.source.clear()
                    // A loop does not poll for work that is there already.
                    if count.load(ordering: .acquiring) > 0 { turn.source.raise(during: turn) }
                }
                return work > 0
            }
        }

        func add() { count.add(1, ordering: .releasing) }
        func wake() { event.raise() }
    }

    private static var hasOtherProcessor: Bool { crl_has_processors() }

    /// Longer than a test waits.
    private func pollForAnHour(_ loop: ThreadRunLoop) {
        loop.pollingNanoseconds.store(3_600_000_000_000, ordering: .relaxed)
    }

    /// A thread whose loop polls, by now. Without a time it does not stop to.
    private func polling(_ work: Work, for time: Duration? = nil) throws -> RunLoopThread {
        let thread = try RunLoopThread()
        if let time { try thread.loop.setPollingTime(time) } else { pollForAnHour(thread.loop) }
        try thread.loop.add(work.source())
        work.add()
        work.wake()
        #expect(waitUntil { work.handled.load(ordering: .relaxed) == 1 })
        return thread
    }

    @Test func `work that no descriptor tells of is seen while the loop polls`() throws {
        guard Self.hasOtherProcessor else { return }
        let work = Work()
        let thread = try polling(work)
        for count in 2...100 {
            work.add()
            try #require(waitUntil { work.handled.load(ordering: .relaxed) == count })
        }
        thread.stop()
    }

    @Test func `a loop that has polled in vain gives the source one turn, and sleeps`() throws {
        let work = Work()
        let thread = try polling(work, for: .milliseconds(1))
        #expect(waitUntil { thread.loop.isWaiting })
        let turns = work.empty.load(ordering: .relaxed)
        #expect(turns == (Self.hasOtherProcessor ? 1 : 0))
        thread.stop()
    }

    @Test func `a source that is served before one with work does not keep the loop awake with it`() throws {
        guard Self.hasOtherProcessor else { return }
        let (first, second) = (Work(), Work())
        let thread = try polling(first)
        let loop = thread.loop
        try loop.add(second.source())
        // A turn of a raised source, after which a ready descriptor comes first.
        first.add()
        #expect(waitUntil { first.handled.load(ordering: .relaxed) == 2 })
        try loop.perform {
            try? loop.setPollingTime(.milliseconds(1))
            first.add()
            second.add()
            second.wake()
        }
        #expect(waitUntil { first.handled.load(ordering: .relaxed) + second.handled.load(ordering: .relaxed) == 4 })
        #expect(waitUntil { loop.isWaiting })
        thread.stop()
    }

    @Test func `a loop with several sources that poll sleeps when their time is over`() throws {
        let thread = try RunLoopThread()
        try thread.loop.setPollingTime(.milliseconds(1))
        let works = (0..<3).map { _ in Work() }
        for work in works { try thread.loop.add(work.source()) }
        for _ in 0..<10 {
            let handled = works.map { $0.handled.load(ordering: .relaxed) }
            for work in works {
                work.add()
                work.wake()
            }
            try #require(waitUntil { zip(works, handled).allSatisfy { $0.handled.load(ordering: .relaxed) > $1 } })
            try #require(waitUntil { thread.loop.isWaiting })
        }
        thread.stop()
    }

    @Test func `a loop that is not to poll sleeps`() throws {
        let work = Work()
        let thread = try polling(work, for: .zero)
        #expect(thread.loop.pollingTime == .zero)
        #expect(waitUntil { thread.loop.isWaiting })
        #expect(work.empty.load(ordering: .relaxed) == 0)
        thread.stop()
    }

    @Test func `a polling time is zero to a millisecond`() throws {
        let loop = try RunLoopThread().loop
        try loop.setPollingTime(.microseconds(50))
        for time in [.seconds(-1), .microseconds(1001), .seconds(Int64.max)] as [Duration] {
            #expect(
                throws: RunLoopError.invalidDuration(
                    name: "pollingTime", value: time, allowed: .zero ... .milliseconds(1))
            ) { try loop.setPollingTime(time) }
        }
        #expect(loop.pollingTime == .microseconds(50))
    }

    @Test func `blocks, timers, other sources and a stop do not wait for the polling to end`() throws {
        let (work, other, performed, fired) = (Work(), madeEvent(), Latch(), Latch())
        let thread = try polling(work)
        let loop = thread.loop
        try loop.perform { performed.open() }
        #expect(performed.wait(until: .patience))
        try loop.add(ThreadRunLoop.Timer(after: .milliseconds(1)) { _ in fired.open() })
        #expect(fired.wait(until: .patience))
        let served = Latch()
        try loop.add(
            ThreadRunLoop.Source1(descriptor: other.descriptor) { _ in
                other.clear()
                served.open()
                return true
            })
        other.raise()
        #expect(served.wait(until: .patience))
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `a stop at the last moment before the loop polls ends the run`() throws {
        let work = Work()
        let thread = try RunLoopThread()
        pollForAnHour(thread.loop)
        try thread.loop.add(
            ThreadRunLoop.Observer(.beforeWaiting) { [weak thread] _, _ in
                if work.handled.load(ordering: .relaxed) > 0 { thread?.stop() }
            })
        try thread.loop.add(work.source())
        work.add()
        work.wake()
        #expect(thread.join(before: .patience))
    }

    @Test func `raising the source ends the polling`() throws {
        let (event, turns) = (madeEvent(), Shared(0))
        let thread = try RunLoopThread()
        pollForAnHour(thread.loop)
        let source = ThreadRunLoop.Source1(
            descriptor: event.descriptor, duplicates: false, hasWork: { false }
        ) { turn in
            if !turn.source.poll(during: turn) { turn.source.clear() }
            // Last: a raise before the source is polled would be this turn's.
            turns.withLock { $0 += 1 }
            return false
        }
        try thread.loop.add(source)
        for count in 1...20 {
            source.raise()
            try #require(waitUntil { turns.withLock { $0 } >= count })
        }
        source.invalidate()
        thread.stop()
    }

    @Test func `a run ends at its deadline though it polls`() throws {
        let result = onThread {
            let (loop, work) = (ThreadRunLoop.current, Work())
            pollForAnHour(loop)
            add(work.source(), to: loop)
            work.add()
            work.wake()
            let first = run(loop, seconds: 20, returning: true)
            return [first, run(loop, seconds: 0.001)]
        }
        #expect(result == [.handledSource, .timedOut])
    }

    // MARK: The value

    private let source = ObjectIdentifier(Polling.self)

    @Test func `each miss doubles the sleeps before the next try, and a hit begins anew`() {
        var polling = Polling()
        func begins() -> Bool { polling.begin(source, for: 1, hasOtherProcessor: true) }
        for sleeps in [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023] {
            #expect(begins())
            polling.miss()
            for _ in 0..<sleeps {
                #expect(!begins())
                polling.noteSleep()
            }
        }
        #expect(begins())
        polling.hit()
        #expect(begins())
        // Too late, which is a miss.
        polling.hit(at: .now + .seconds(1))
        #expect(!begins())
        polling.noteSleep()
        #expect(begins())
    }

    @Test func `one source is polled for at a time, and a turn in vain gives it no more time`() {
        var polling = Polling()
        func begins(_ source: ObjectIdentifier, for nanoseconds: UInt64 = 1000) -> Bool {
            polling.begin(source, for: nanoseconds, hasOtherProcessor: true)
        }
        let other = ObjectIdentifier(ThreadRunLoop.self)
        #expect(begins(source))
        let end = polling.target?.end
        #expect(!begins(other))
        #expect(begins(source, for: 1_000_000))
        #expect(polling.target?.end == end)
        polling.hit()
        #expect(begins(other))
    }

    @Test func `with one processor nothing is polled, and the number is looked up now and then`() {
        var (polling, looks) = (Polling(), 0)
        let start = MonotonicInstant.now
        func begins(_ hasOther: Bool, after milliseconds: Int = 0) -> Bool {
            polling.begin(
                source, for: 1, now: start + .milliseconds(milliseconds),
                hasOtherProcessor: {
                    looks += 1
                    return hasOther
                }())
        }
        #expect(!begins(false))
        #expect(polling.target == nil)
        #expect(!begins(true))
        polling.noteSleep()
        #expect(begins(true))
        #expect(polling.target?.source == source)
        polling.hit()
        #expect(begins(false, after: 99))
        #expect(looks == 2)
        // Messages come in time, but now from the same processor.
        polling.hit()
        #expect(!begins(false, after: 100))
        #expect(looks == 3)
    }
}
