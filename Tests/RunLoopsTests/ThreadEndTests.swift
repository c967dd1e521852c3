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
            loop.add(source)
            loop.add(source, forMode: "other")
            return loop
        }
        #expect(trace.all.sorted() == ["left default true true", "left other true true"])
        let late = ThreadRunLoop.Source0 {}
        loop.add(late)
        #expect(!loop.contains(late))
    }

    @Test func `threads that end at once each take their items out`() {
        let count = Shared(0)
        for _ in 0..<20 {
            let helpers = (0..<8).map { _ in
                Helper {
                    ThreadRunLoop.current.add(
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
            loop.perform { withExtendedLifetime(last) {} }
            return loop
        }
        #expect(isGone.withLock { $0 })
        loop.perform { Issue.record("ran after the end") }
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
            #expect(items.timer.isValid && items.observer.isValid && items.source0.isValid && items.source1.isValid)
        }
        #expect(loop.currentMode == nil && !loop.isWaiting && !loop.isCurrent)
        #expect(loop.nextTimerFireDate() == nil && loop.nextTimerFireDate(forMode: "other") == nil)
        // Nothing of it is used up: another loop takes them all.
        let thread = try RunLoopThread()
        former.add(to: thread.loop, .default)
        #expect(former.areIn(thread.loop))
    }

    @Test func `a loop that has ended refuses work`() throws {
        let event = madeEvent()
        let loop = onThread { ThreadRunLoop.current }
        let items = Items(event.descriptor)
        #expect(!loop.add(items.source0) && !loop.add(items.timer) && !loop.add(items.observer))
        #expect(throws: RunLoopError.loopEnded) { try loop.add(items.source1) }
        #expect(throws: RunLoopError.loopEnded) { try loop.addCommonMode("other") }
        #expect(throws: RunLoopError.loopEnded) { try StallMonitor(loop) { _ in } }
        #expect(!loop.perform { Issue.record("performed") })
        #expect(!loop.perform(order: 0) {}.isPending && !loop.perform(after: .zero) {}.isPending)
        #expect(!ThreadRunLoop.IdleQueue(in: loop).add {}.isPending)
    }

    @Test func `a loop says whether it takes work`() throws {
        let event = madeEvent()
        let (thread, other, items) = (try RunLoopThread(), try RunLoopThread(), Items(event.descriptor))
        for loop in [thread.loop, thread.loop] {
            #expect(loop.add(items.source0) && loop.add(items.timer) && loop.add(items.observer))
            #expect(try loop.add(items.source1))
            #expect(loop.perform {})
        }
        // Timers and observers are one loop's.
        #expect(other.loop.add(items.source0) && !other.loop.add(items.timer) && !other.loop.add(items.observer))
        items.invalidate()
        let loop = thread.loop
        #expect(!loop.add(items.source0) && !loop.add(items.timer) && !loop.add(items.observer))
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
            loop.perform(inModes: [mode]) {}
            loop.perform(order: 0, inModes: [mode], owner: items) {}
            loop.perform(after: .zero, inModes: [mode], owner: items) {}
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
        loop.add(source0, forMode: mode)
        unlessEnded { () throws(RunLoopError) in _ = try loop.add(source1, forMode: mode) }
        loop.add(timer, forMode: mode)
        loop.add(observer, forMode: mode)
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
