import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct ThreadEndTests {
    @Test func `the thread's end takes every item out, and tells the Source0s`() {
        let trace = Trace()
        let loop = onThread {
            let loop = ThreadRunLoop.current
            let source = ThreadRunLoop.Source0(
                cancel: { loop, mode in trace("left \(mode) \(loop.isCurrent) \(loop === ThreadRunLoop.current)") }
            ) {}
            _ = try? loop.add(source)
            _ = try? loop.add(source, forMode: "other")
            return loop
        }
        #expect(trace.all.sorted() == ["left default true true", "left other true true"])
        let late = ThreadRunLoop.Source0 {}
        _ = try? loop.add(late)
        #expect(!loop.contains(late))
    }

    @Test func `threads that end at once each take their items out`() {
        let count = Shared(0)
        for _ in 0..<20 {
            let helpers = (0..<8).map { _ in
                Helper {
                    _ = try? ThreadRunLoop.current.add(
                        ThreadRunLoop.Source0(cancel: { _, _ in count.withLock { $0 += 1 } }) {})
                }
            }
            for helper in helpers { helper.join() }
        }
        #expect(count.withLock { $0 } == 160)
    }

    @Test func `a block that was never run is let go of, and may call back in`() {
        let isGone = Shared(false)
        let loop = onThread {
            let loop = ThreadRunLoop.current
            let last = AtLast {
                loop.stop()
                isGone.withLock { $0 = true }
            }
            try? loop.perform { withExtendedLifetime(last) {} }
            return loop
        }
        #expect(isGone.withLock { $0 })
        try? loop.perform { Issue.record("ran after the end") }
        loop.wakeUp()
    }

    @Test func `a source can join another loop`() throws {
        let (event, done) = (madeEvent(), Latch())
        let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { _ in
            event.clear()
            done.open()
            return true
        }
        onThread { add(source, to: .current) }
        #expect(source.isValid)
        let thread = try RunLoopThread()
        try thread.loop.add(source)
        event.raise()
        #expect(done.wait(until: .patience))
    }

    @Test func `every call on the loop of a thread that has ended is harmless`() throws {
        let event = madeEvent()
        let (loop, former) = onThread {
            let (loop, items) = (ThreadRunLoop.current, Items(event.descriptor))
            items.add(to: loop, "other")
            run(loop, seconds: 0)
            return (loop, items)
        }
        for items in [former, Items(event.descriptor)] {
            Self.callEverything(loop, items)
            #expect(!items.areIn(loop))
            #expect(items.timer.isValid)
            #expect(items.observer.isValid)
            #expect(items.source0.isValid)
            #expect(items.source1.isValid)
        }
        #expect(loop.currentMode == nil)
        #expect(!loop.isWaiting)
        #expect(!loop.isCurrent)
        #expect(loop.nextTimerFireDate() == nil)
        #expect(loop.nextTimerFireDate(forMode: "other") == nil)
        // Nothing of it is used up: another loop takes them all.
        let thread = try RunLoopThread()
        former.add(to: thread.loop, .default)
        #expect(former.areIn(thread.loop))
    }

    @Test func `a loop that has ended refuses work`() throws {
        let event = madeEvent()
        let loop = onThread { ThreadRunLoop.current }
        let items = Items(event.descriptor)
        #expect(throws: RunLoopError.loopEnded) { try loop.add(items.source0) }
        #expect(throws: RunLoopError.loopEnded) { try loop.add(items.timer) }
        #expect(throws: RunLoopError.loopEnded) { try loop.add(items.observer) }
        #expect(throws: RunLoopError.loopEnded) { try loop.add(items.source1) }
        #expect(throws: RunLoopError.loopEnded) { try loop.addCommonMode("other") }
        #expect(throws: RunLoopError.loopEnded) { try StallMonitor(loop) { _ in } }
        #expect(throws: RunLoopError.loopEnded) { try loop.perform { Issue.record("performed") } }
        #expect(throws: RunLoopError.loopEnded) { try loop.perform(order: 0) { Issue.record("performed") } }
        #expect(throws: RunLoopError.loopEnded) { try loop.perform(after: .zero) { Issue.record("performed") } }
        #expect(throws: RunLoopError.loopEnded) { try ThreadRunLoop.IdleQueue(in: loop) }
        // There is nothing to stop or to wake.
        loop.stop()
        loop.wakeUp()
        loop.remove(items.source0)
    }

    @Test func `an idle queue refuses tasks when its loop has ended`() throws {
        let idle = Shared<ThreadRunLoop.IdleQueue?>(nil)
        let thread = try RunLoopThread { loop in idle.withLock { $0 = try? ThreadRunLoop.IdleQueue(in: loop) } }
        thread.stop()
        #expect(thread.join(before: .patience))
        let queue = try #require(idle.withLock { $0 })
        #expect(throws: RunLoopError.loopEnded) { try queue.add { Issue.record("performed") } }
    }

    private func adds(_ items: Items, to loop: ThreadRunLoop) throws -> [Bool] {
        [try loop.add(items.source0), try loop.add(items.timer), try loop.add(items.observer)]
    }

    @Test func `a loop says whether it takes work`() throws {
        let event = madeEvent()
        let (thread, other, items) = (try RunLoopThread(), try RunLoopThread(), Items(event.descriptor))
        for loop in [thread.loop, thread.loop] {
            #expect(try adds(items, to: loop) == [true, true, true])
            #expect(try loop.add(items.source1))
            try loop.perform {}
        }
        // Timers and observers are one loop's.
        #expect(try adds(items, to: other.loop) == [true, false, false])
        items.invalidate()
        let loop = thread.loop
        #expect(try adds(items, to: loop) == [false, false, false])
        #expect(try !loop.add(items.source1))
    }

    @Test func `calls from other threads may come while the thread ends`() {
        let event = madeEvent()
        for _ in 0..<100 {
            let (made, isOver) = (Shared<ThreadRunLoop?>(nil), Shared(false))
            let owner = Helper {
                made.withLock { $0 = .current }
                run(.current, seconds: 0)
            }
            waitUntil { made.withLock { $0 } != nil }
            guard let loop = made.withLock({ $0 }) else { return }
            let callers = (0..<2).map { _ in
                Helper {
                    let items = Items(event.descriptor)
                    while !isOver.withLock({ $0 }) { Self.callEverything(loop, items) }
                    items.invalidate()
                }
            }
            owner.join()
            isOver.withLock { $0 = true }
            for caller in callers { caller.join() }
        }
    }

    private static func callEverything(_ loop: ThreadRunLoop, _ items: Items) {
        for mode in [ThreadRunLoop.Mode.default, .common, "other", "new"] {
            items.add(to: loop, mode)
            items.remove(from: loop, mode)
            items.add(to: loop, mode)
            try? loop.perform(inModes: [mode]) {}
            _ = try? loop.perform(order: 0, inModes: [mode], owner: items) {}
            _ = try? loop.perform(after: .zero, inModes: [mode], owner: items) {}
            _ = loop.nextTimerFireDate(forMode: mode)
        }
        loop.cancelPerformRequests(of: items)
        unlessEnded { () throws(RunLoopError) in try loop.addCommonMode("other") }
        items.source0.signal()
        items.source1.raise()
        items.source1.clear()
        items.timer.nextFireDate = .now + .seconds(100)
        loop.wakeUp()
        loop.stop()
        _ = (loop.currentMode, loop.allModes, loop.isWaiting, loop.isCurrent)
    }
}

/// What a loop may refuse because it has ended.
private func unlessEnded(_ body: () throws(RunLoopError) -> Void) {
    do { try body() } catch { #expect(error == .loopEnded) }
}

/// One of each kind, none of which is ever called.
private final class Items: Sendable {
    let source0 = ThreadRunLoop.Source0 {}
    let source1: ThreadRunLoop.Source1
    let timer = ThreadRunLoop.Timer(after: .seconds(100)) { _ in }
    let observer = ThreadRunLoop.Observer(.all) { _, _ in }

    init(_ descriptor: Int32) { source1 = .init(descriptor: descriptor) { _ in false } }

    func add(to loop: ThreadRunLoop, _ mode: ThreadRunLoop.Mode) {
        _ = try? loop.add(source0, forMode: mode)
        unlessEnded { () throws(RunLoopError) in _ = try loop.add(source1, forMode: mode) }
        _ = try? loop.add(timer, forMode: mode)
        _ = try? loop.add(observer, forMode: mode)
    }

    func remove(from loop: ThreadRunLoop, _ mode: ThreadRunLoop.Mode) {
        loop.remove(source0, forMode: mode)
        loop.remove(source1, forMode: mode)
        loop.remove(timer, forMode: mode)
        loop.remove(observer, forMode: mode)
    }

    func invalidate() {
        source0.invalidate()
        source1.invalidate()
        timer.invalidate()
        observer.invalidate()
    }

    /// Whether all of them are in the default mode; none may be if not all are.
    func areIn(_ loop: ThreadRunLoop) -> Bool {
        let answers = [loop.contains(source0), loop.contains(source1), loop.contains(timer), loop.contains(observer)]
        #expect(Set(answers).count == 1)
        return answers[0]
    }
}
