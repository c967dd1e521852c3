import CRunLoopShims
import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

/// Another loop, here one of poll(2), that has the thread while ours sleeps.
@Suite(.ownThread) struct GuestTests {
    @Test func `a guest's descriptors and the loop's own items are served side by side`() {
        let trace = onThread {
            let (loop, trace, guest) = (ThreadRunLoop.current, Trace(), PollGuest(in: ThreadRunLoop.current))
            guest.serve {
                trace("guest")
                try? loop.perform { trace("block") }
                loop.addTimer(after: .milliseconds(1)) { _ in
                    trace("timer")
                    loop.stop()
                }
            }
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            Helper { guest.event.raise() }.join()
            trace("\(run(loop, seconds: 20))")
            return trace.all
        }
        #expect(trace == ["guest", "block", "timer", "stopped"])
    }

    @Test func `what a guest's callback changes ends the sleep`() {
        onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let guest = PollGuest(in: loop, countsAsSource: false)
            let source = ThreadRunLoop.Source0 { trace("source") }
            _ = try? loop.add(source)
            let timer = ThreadRunLoop.Timer(after: .seconds(1000)) { _ in trace("timer") }
            _ = try? loop.add(timer)
            let changes: [(name: String, make: @Sendable () -> Void)] = [
                ("block", { try? loop.perform { trace("block") } }),
                ("source", { source.signal() }),
                ("timer", { timer.nextFireDate = .now }),
                ("stop", { loop.stop() }),
            ]
            for (name, change) in changes {
                guest.serve {
                    change()
                    if name != "stop" { try? loop.perform(inModes: ["after"]) { trace("after") } }
                }
                // Asleep by then.
                let helper = Helper {
                    waitUntil { loop.isWaiting }
                    guest.event.raise()
                }
                let observer = ThreadRunLoop.Observer(.afterWaiting) { _, _ in
                    if name != "stop" { try? loop.perform { loop.stop() } }
                }
                _ = try? loop.add(observer)
                #expect(run(loop, seconds: 20) == .stopped, "\(name)")
                observer.invalidate()
                helper.join()
                run(loop, seconds: 0)
                if name != "stop" { #expect(trace.all.last == name) }
            }
        }
    }

    @Test func `a guest's source is a handled source, and a guest's timer is not`() {
        let results = onThread {
            let loop = ThreadRunLoop.current
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            var results: [ThreadRunLoop.RunResult] = []
            for counts in [true, false] {
                let guest = PollGuest(in: loop, countsAsSource: counts)
                guest.event.raise()
                results.append(run(loop, seconds: counts ? 20 : 0.01, returning: true))
                loop.guest = nil
            }
            return results
        }
        #expect(results == [.handledSource, .timedOut])
    }

    @Test func `a busy loop and a busy guest leave each other turns`() {
        let (ours, theirs) = onThread {
            let loop = ThreadRunLoop.current
            let guest = PollGuest(in: loop)
            let (ours, theirs) = (Shared(0), Shared(0))
            guest.serve {
                theirs.withLock { $0 += 1 }
                guest.event.raise()
            }
            guest.event.raise()
            let event = madeEvent()
            event.raise()
            add(
                .init(descriptor: event.descriptor) { _ in
                    let count = ours.withLock { count in
                        count += 1
                        return count
                    }
                    if count == 100 { loop.stop() }
                    return true
                }, to: loop)
            run(loop, seconds: 20)
            // A source that is raised all the time, too.
            let raised = ThreadRunLoop.Source1(descriptor: event.descriptor) { turn in
                turn.source.raise()
                return true
            }
            add(raised, to: loop)
            raised.raise()
            let before = theirs.withLock { $0 }
            let isServed = Shared(false)
            guest.serve {
                isServed.withLock { $0 = true }
                loop.stop()
            }
            run(loop, seconds: 20)
            raised.invalidate()
            #expect(isServed.withLock { $0 })
            return (ours.withLock { $0 }, before)
        }
        #expect(ours >= 100)
        #expect(theirs >= 40)
    }

    @Test func `a guest's callback may run the loop`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let guest = PollGuest(in: loop)
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            guest.serve {
                trace("guest")
                _ = try? loop.add(
                    .init(after: .milliseconds(1)) { _ in
                        trace("inner timer")
                        try? loop.perform { trace("outer block") }
                    }, forMode: "inner")
                trace("\(run(loop, "inner", seconds: 20))")
                loop.addTimer(after: .milliseconds(1)) { _ in loop.stop() }
            }
            guest.event.raise()
            trace("\(run(loop, seconds: 20))")
            return trace.all
        }
        #expect(trace == ["guest", "inner timer", "finished", "outer block", "stopped"])
    }

    @Test func `no wake-up is lost to a guest`() throws {
        let thread = try RunLoopThread { loop in
            let guest = PollGuest(in: loop)
            // A timer of the guest's own would look like this: its turns end early.
            guest.mostMilliseconds.withLock { $0 = 3 }
        }
        let (threads, each, count, done) = (4, 250_000, Shared(0), Latch())
        let helpers = (0..<threads).map { index in
            Helper {
                for burst in bursts(of: each, thread: index) {
                    for _ in 0..<burst {
                        try? thread.loop.perform {
                            let count = count.withLock { count in
                                count += 1
                                return count
                            }
                            if count == threads * each { done.open() }
                        }
                    }
                    sched_yield()
                }
            }
        }
        #expect(done.wait(until: .patience), "\(count.withLock { $0 })")
        for helper in helpers { helper.join() }
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `a guest that has nothing to do gets one turn a sleep`() {
        let turns = onThread {
            let loop = ThreadRunLoop.current
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let guest = PollGuest(in: loop)
            run(loop, seconds: 0.1)
            return guest.turns.withLock { $0 }
        }
        // One more for the edge of an old wake-up.
        #expect(turns <= 2)
    }
}

/// A loop that waits for one eventfd.
private final class PollGuest: Sendable {
    let event = madeEvent()
    let turns = Shared(0)
    let mostMilliseconds = Shared(Int32(60_000))
    private let body = Shared<(@Sendable () -> Void)?>(nil)

    init(in loop: ThreadRunLoop, countsAsSource: Bool = true) {
        let (event, turns, most, body) = (event, turns, mostMilliseconds, body)
        loop.guest = { turn in
            turns.withLock { $0 += 1 }
            let most = Int64(most.withLock { $0 }) * 1_000_000
            let timeout = MonotonicInstant(turn.deadline).timeout
            _ = crl_poll(turn.descriptor, event.descriptor, timeout < 0 ? most : min(timeout, most))
            guard event.clear() > 0 else { return false }
            body.withLock { $0 }?()
            return countsAsSource
        }
    }

    func serve(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0 = body } }
}
