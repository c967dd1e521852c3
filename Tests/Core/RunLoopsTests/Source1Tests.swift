import CoreFoundation
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct Source1Tests {
    @Test func `a raised source is performed though its descriptor is silent, and its loop does not sleep`() {
        let trace = onThread {
            let deadline = MonotonicInstant.patience
            let (loop, event, trace) = (ThreadRunLoop.current, madeEvent(), Trace())
            let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { turn in
                trace("\(turn.readiness.isEmpty)")
                return true
            }
            add(source, to: loop)
            source.raise()
            trace("\(run(loop, seconds: 40, returning: true))")
            trace("\(run(loop, seconds: 40, returning: true))")
            trace("\(deadline.hasPassed ? "slept" : "awake")")
            source.clear()
            trace("\(run(loop, seconds: 0, returning: true))")
            return trace.all
        }
        #expect(trace == ["true", "handledSource", "true", "handledSource", "awake", "timedOut"])
    }

    @Test func `a source raised before it is added is performed`() {
        let result = onThread {
            let (loop, event) = (ThreadRunLoop.current, madeEvent())
            let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { _ in true }
            source.raise()
            add(source, to: loop)
            return run(loop, seconds: 20, returning: true)
        }
        #expect(result == .handledSource)
    }

    @Test func `a raised source wakes the sleeping loop that it is added to`() throws {
        let (thread, event, performed) = (try RunLoopThread(), madeEvent(), Latch())
        let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { _ in
            performed.open()
            return false
        }
        source.raise()
        waitUntil { thread.loop.isWaiting }
        try thread.loop.add(source)
        #expect(performed.wait(until: .patience))
        source.invalidate()
    }

    @Test func `raising wakes every loop that has the source`() throws {
        let (first, second) = (try RunLoopThread(), try RunLoopThread())
        let (event, seen) = (madeEvent(), Shared<Set<ObjectIdentifier>>([]))
        let both = Latch()
        let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { turn in
            let count = seen.withLock { seen in
                seen.insert(ObjectIdentifier(turn.loop))
                return seen.count
            }
            if count == 2 { both.open() }
            return true
        }
        try first.loop.add(source)
        try second.loop.add(source)
        waitUntil { first.loop.isWaiting && second.loop.isWaiting }
        source.raise()
        #expect(both.wait(until: .patience))
        source.invalidate()
        #expect(!first.loop.contains(source))
        #expect(!second.loop.contains(source))
    }

    @Test func `sources that stay raised or ready take turns, and timers get theirs`() {
        let counts = onThread {
            let loop = ThreadRunLoop.current
            let counts = Shared([Int](repeating: 0, count: 7))
            let events = (0..<6).map { _ in madeEvent() }
            for (index, event) in events.enumerated() {
                let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { _ in
                    counts.withLock { $0[index] += 1 }
                    return true
                }
                add(source, to: loop)
                // Half of them are raised, half of them ready, one of the latter both.
                if index < 3 { source.raise() } else { event.raise() }
                if index == 3 { source.raise() }
            }
            _ = try? loop.add(
                ThreadRunLoop.Timer(at: .now, every: .nanoseconds(1)) { _ in counts.withLock { $0[6] += 1 } })
            _ = try? loop.add(
                ThreadRunLoop.Observer(.beforeTimers) { _, _ in
                    if counts.withLock({ $0.reduce(0, +) }) >= 700 { loop.stop() }
                })
            run(loop, seconds: 20)
            withExtendedLifetime(events) {}
            return counts.withLock { $0 }
        }
        for count in counts { #expect(count >= 40, "\(counts)") }
    }

    @Test func `a turn is one message in a run that returns, and a batch in another`() {
        let messages = onThread {
            let (loop, event, messages) = (ThreadRunLoop.current, madeEvent(), Shared<[Int]>([]))
            add(
                .init(descriptor: event.descriptor) { turn in
                    var count = 0
                    while turn.next() { count += 1 }
                    messages.withLock { $0.append(count) }
                    return true
                }, to: loop)
            event.raise()
            run(loop, seconds: 20, returning: true)
            run(loop, seconds: 0)
            return messages.withLock { $0 }
        }
        #expect(messages.first == 1)
        #expect(messages.last ?? 0 > 1)
    }

    @Test(arguments: ["stop", "invalidate", "remove"])
    func `a batch ends early`(_ cause: String) {
        let count = onThread {
            let (loop, event, count) = (ThreadRunLoop.current, madeEvent(), Shared(0))
            let sources = Shared<[ThreadRunLoop.Source1]>([])
            let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { turn in
                while turn.next() {
                    guard
                        count.withLock({
                            $0 += 1; return $0 == 3
                        })
                    else { continue }
                    switch cause {
                    case "stop": loop.stop()
                    case "invalidate": turn.source.invalidate()
                    default: for source in sources.withLock({ $0 }) { loop.remove(source) }
                    }
                }
                return true
            }
            sources.withLock { $0 = [source] }
            add(source, to: loop)
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            event.raise()
            run(loop, seconds: 0)
            sources.withLock { $0 = [] }
            return count.withLock { $0 }
        }
        #expect(count == 3)
    }

    @Test func `items and loops let go of each other`() {
        let isGone = Shared(false)
        onThread {
            let (loop, event) = (ThreadRunLoop.current, madeEvent())
            let last = AtLast { isGone.withLock { $0 = true } }
            add(
                .init(descriptor: event.descriptor) { _ in
                    withExtendedLifetime((loop, last, event)) {}
                    return true
                }, to: loop)
        }
        #expect(isGone.withLock { $0 })
    }

    @Test func `adding and removing while the loop serves the source`() throws {
        let thread = try RunLoopThread()
        let event = madeEvent()
        event.raise()
        let calls = Shared(0)
        let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { _ in
            calls.withLock { $0 += 1 }
            return true
        }
        let deadline = MonotonicInstant.patience
        for _ in 0..<2_000 {
            try thread.loop.add(source)
            source.raise()
            source.clear()
            thread.loop.remove(source)
        }
        try thread.loop.add(source)
        let before = calls.withLock { $0 }
        waitUntil { calls.withLock { $0 } > before }
        #expect(calls.withLock { $0 } > before)
        #expect(!deadline.hasPassed)
    }

    @Test func `a descriptor's source answers as Foundation's does`() {
        let event = madeEvent()
        var context = CFRunLoopSourceContext1()
        context.version = 1
        context.getPort = { _ in -1 }
        context.perform = { _ in }
        let theirs = withUnsafeMutablePointer(to: &context) { context in
            context.withMemoryRebound(to: CFRunLoopSourceContext.self, capacity: 1) {
                CFRunLoopSourceCreate(nil, 4, $0)
            }
        }
        let ours = ThreadRunLoop.Source1(descriptor: event.descriptor, order: 4) { _ in false }
        #expect(ours.descriptor == event.descriptor)
        #expect(ours.order == CFRunLoopSourceGetOrder(theirs))
        #expect(ours.isValid)
        #expect(CFRunLoopSourceIsValid(theirs))
        ours.invalidate()
        CFRunLoopSourceInvalidate(theirs)
        #expect(!ours.isValid)
        #expect(!CFRunLoopSourceIsValid(theirs))
    }
}
