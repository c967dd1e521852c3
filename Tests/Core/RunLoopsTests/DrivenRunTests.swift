import CRunLoopShims
import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

/// Runs that another loop drives, here with poll(2).
@Suite(.ownThread) struct DrivenRunTests {
    @Test func `a driven run calls everything in the order of an ordinary one`() {
        let traces = [false, true].map { isDriven in
            onThread {
                let (loop, trace) = (ThreadRunLoop.current, Trace())
                _ = try? loop.add(.init(.all) { _, activity in trace("\(activity.rawValue)") })
                let source = ThreadRunLoop.Source0 { trace("source") }
                _ = try? loop.add(source)
                try? loop.perform { trace("block") }
                // The run sleeps before it is due, also when the thread is held up before.
                loop.addTimer(after: .milliseconds(200)) { _ in
                    trace("timer")
                    source.signal()
                    try? loop.perform {
                        trace("block of the timer")
                        try? loop.perform { loop.stop() }
                    }
                }
                if isDriven { drive(loop) } else { run(loop, seconds: 20) }
                return trace.all
            }
        }
        #expect(traces[0] == traces[1])
        #expect(traces[1].contains("source"))
        #expect(traces[1].contains("block of the timer"))
    }

    @Test func `nothing happens while nothing is ready`() {
        let (events, wasReadable) = onThread {
            let (loop, events) = (ThreadRunLoop.current, Shared(0))
            _ = try? loop.add(.init(.all) { _, _ in events.withLock { $0 += 1 } })
            let driven = begin()
            #expect(driven.prepare() == nil)
            let before = events.withLock { $0 }
            for _ in 0..<5 {
                #expect(driven.dispatch() == nil)
                #expect(driven.prepare() == nil)
            }
            #expect(loop.isWaiting)
            return (events.withLock { $0 } - before, isReadable(driven))
        }
        #expect(events == 0)
        #expect(!wasReadable)
    }

    @Test func `sources that are ready together make one edge, and all are served`() {
        let served = onThread {
            let (loop, count, host) = (ThreadRunLoop.current, Shared(0), EpollHost())
            let events = (0..<3).map { _ in madeEvent() }
            for event in events {
                let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { _ in
                    event.clear()
                    count.withLock { $0 += 1 }
                    return true
                }
                _ = try? loop.add(source)
            }
            let driven = begin()
            host.watch(driven.descriptor, edgeTriggered: true)
            _ = driven.prepare()
            for event in events { event.raise() }
            for _ in 0..<3 {
                host.wait(until: min(MonotonicInstant(after: driven.prepare()), .now + .milliseconds(100)))
                driven.dispatch()
            }
            return count.withLock { $0 }
        }
        #expect(served == 3)
    }

    @Test func `what a callback of the other loop changes makes the descriptor readable`() {
        onThread {
            let loop = ThreadRunLoop.current
            let (driven, trace) = (begin(), Trace())
            let (idle, event) = (ThreadRunLoop.Source0 { trace("source") }, madeEvent())
            let signaled = ThreadRunLoop.Source0 { trace("signalled before") }
            signaled.signal()
            let raised = ThreadRunLoop.Source1(descriptor: event.descriptor) { turn in
                turn.source.clear()
                trace("raised")
                return true
            }
            _ = try? loop.add(idle)
            let timer = ThreadRunLoop.Timer(after: .seconds(1000)) { _ in trace("timer") }
            _ = try? loop.add(timer)
            let changes: [(name: String, make: () -> Void)] = [
                ("block", { _ = try? loop.perform { trace("block") } }),
                ("source", { idle.signal() }),
                ("signalled before", { _ = try? loop.add(signaled) }),
                ("request", { _ = try? loop.perform(order: 0) { trace("request") } }),
                ("timer", { timer.nextFireDate = .now }),
                ("new timer", { _ = loop.addTimer(after: .zero) { _ in trace("new timer") } }),
                (
                    "raised",
                    {
                        add(raised, to: loop)
                        raised.raise()
                    }
                ),
                ("job", { _ = Task(executorPreference: loop.taskExecutor) { trace("job") } }),
                (
                    "block of an inner run",
                    {
                        try? loop.perform(inModes: ["other"]) { try? loop.perform { trace("block of an inner run") } }
                        run(loop, "other", seconds: 0)
                    }
                ),
                (
                    "block for common modes",
                    {
                        try? loop.perform(inModes: [.common]) { trace("block for common modes") }
                        try? loop.addCommonMode("other")
                    }
                ),
            ]
            func hasPlayed(_ name: String) -> Bool {
                drive(driven)
                return trace.all.last == name
            }
            for (name, change) in changes {
                while driven.prepare() == .zero { driven.dispatch() }
                change()
                #expect(waitUntil { isReadable(driven) }, "\(name)")
                // A wake-up and the event itself may be two events.
                #expect(waitUntil { hasPlayed(name) }, "\(name): \(trace.all)")
            }
            loop.stop()
            #expect(isReadable(driven))
            #expect(driven.dispatch() == .stopped)
            raised.invalidate()
        }
    }

    @Test func `a stop ends the run, and tells the observers of the exit once`() {
        let (results, exits) = onThread {
            let (loop, exits) = (ThreadRunLoop.current, Shared(0))
            _ = try? loop.add(.init(.exit) { _, _ in exits.withLock { $0 += 1 } })
            let driven = begin()
            try? loop.perform { loop.stop() }
            _ = driven.prepare()
            let results = [driven.dispatch(), driven.dispatch()]
            driven.stop()
            #expect(loop.currentMode == nil)
            #expect(driven.prepare() == nil)
            return (results, exits.withLock { $0 })
        }
        #expect(results == [.stopped, .stopped])
        #expect(exits == 1)
    }

    @Test func `an observer of the entry may stop the run`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            _ = try? loop.add(
                .init(.all) { _, activity in
                    trace("\(activity.rawValue)")
                    if activity == .entry { loop.stop() }
                })
            let driven = begin()
            #expect(driven.prepare() == .zero)
            trace("\(String(describing: driven.dispatch()))")
            return trace.all
        }
        #expect(trace == ["1", "128", "\(String(describing: ThreadRunLoop.RunResult?.some(.stopped)))"])
    }

    @Test func `a callout may end its own run`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            _ = try? loop.add(.init([.beforeWaiting, .exit]) { _, activity in trace("\(activity.rawValue)") })
            let driven = begin()
            try? loop.perform(ThreadRunLoop.local { driven.stop() })
            while driven.dispatch() == nil {}
            #expect(loop.currentMode == nil)
            return trace.all
        }
        #expect(trace == ["32", "128"])
    }

    @Test func `the last reference ends the run`() {
        let exits = onThread {
            let (loop, exits) = (ThreadRunLoop.current, Shared(0))
            _ = try? loop.add(.init(.exit) { _, _ in exits.withLock { $0 += 1 } })
            do {
                let driven = begin()
                _ = driven.prepare()
                #expect(loop.currentMode == .default)
            }
            #expect(loop.currentMode == nil)
            #expect(!loop.isWaiting)
            return exits.withLock { $0 }
        }
        #expect(exits == 1)
    }

    @Test func `a run outlives its last item, and its thread ends with it`() {
        let fired = onThread {
            let (loop, fired) = (ThreadRunLoop.current, Shared(0))
            let driven = begin("mode")
            for _ in 0..<2 {
                _ = try? loop.add(.init(after: .milliseconds(1)) { _ in fired.withLock { $0 += 1 } }, forMode: "mode")
                let count = fired.withLock { $0 }
                #expect(
                    waitUntil {
                        drive(driven)
                        return fired.withLock { $0 } > count
                    })
            }
            // Neither ended nor released before the thread's loop is.
            _ = Unmanaged.passRetained(driven)
            return fired.withLock { $0 }
        }
        #expect(fired == 2)
    }

    @Test func `runs nest inside callbacks of the other loop and inside callouts`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let outer = begin()
            while outer.prepare() == .zero { outer.dispatch() }
            // An ordinary run inside a callback, which leaves a block for the outer driven.
            _ = try? loop.add(
                .init(after: .milliseconds(1)) { _ in
                    trace("inner timer")
                    try? loop.perform { trace("outer block") }
                }, forMode: "inner")
            trace("\(run(loop, "inner", seconds: 20))")
            #expect(isReadable(outer))
            drive(outer)
            // A driven run inside a callback, and a sleep in it.
            let inner = begin("inner")
            try? loop.perform(inModes: ["inner"]) { trace("inner block") }
            drive(inner)
            #expect(loop.isWaiting)
            #expect(loop.currentMode == "inner")
            inner.stop()
            #expect(loop.currentMode == .default)
            drive(outer)
            #expect(loop.isWaiting)
            // Both inside a callout.
            try? loop.perform {
                run(loop, "inner", seconds: 0)
                let inner = begin("inner")
                try? loop.perform(inModes: ["inner"]) { trace("inside a callout") }
                drive(inner)
            }
            drive(outer)
            loop.stop()
            trace("\(String(describing: outer.dispatch()))")
            return trace.all
        }
        #expect(
            trace == [
                "inner timer", "finished", "outer block", "inner block", "inside a callout",
                "\(String(describing: ThreadRunLoop.RunResult?.some(.stopped)))",
            ])
    }

    // What is visible before a wake-up must be seen before the host sleeps for ever, wherever in a round the wake-up comes.
    @Test(arguments: [false, true])
    func `a million wake-ups by four threads and by the other loop, none lost`(edgeTriggered: Bool) {
        let (threads, each) = (4, 250_000)
        let loop = Shared<ThreadRunLoop?>(nil)
        let (ready, count) = (Latch(), Shared(0))
        let helpers = (0..<threads).map { index in
            Helper {
                guard ready.wait(until: .patience), let loop = loop.withLock({ $0 }) else { return }
                for burst in bursts(of: each, thread: index) {
                    for _ in 0..<burst { try? loop.perform { count.withLock { $0 += 1 } } }
                    sched_yield()
                }
            }
        }
        let isComplete = onThread {
            let driven = begin()
            loop.withLock { $0 = driven.loop }
            let host = EpollHost()
            host.watch(driven.descriptor, edgeTriggered: edgeTriggered)
            ready.open()
            let deadline = MonotonicInstant.patience
            var all = threads * each
            while true {
                let end = MonotonicInstant(after: driven.prepare())
                if count.withLock({ $0 }) == all || deadline.hasPassed { break }
                // A lost wake-up would make the wait last until the deadline.
                host.wait(until: min(end, deadline))
                // The other loop's own callback, in the loop's sleep.
                for _ in 0..<3 { try? driven.loop.perform { count.withLock { $0 += 1 } } }
                all += 3
                driven.dispatch()
            }
            return !deadline.hasPassed
        }
        for helper in helpers { helper.join() }
        #expect(isComplete, "\(count.withLock { $0 })")
    }

    @Test func `a loop that has nothing to do keeps the host asleep`() {
        let rounds = onThread {
            let loop = ThreadRunLoop.current
            try? loop.setPollingTime(.microseconds(100))
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            loop.addTimer(after: .seconds(1000)) { _ in }
            let (driven, host) = (begin(), EpollHost())
            host.watch(driven.descriptor, edgeTriggered: false)
            try? loop.perform {}
            loop.wakeUp()
            var rounds = 0
            let end = MonotonicInstant.now + .milliseconds(200)
            while !end.hasPassed {
                host.wait(until: min(MonotonicInstant(after: driven.prepare()), end))
                driven.dispatch()
                rounds += 1
            }
            return rounds
        }
        // The first pass, the wake-up, its edge, and the end.
        #expect(rounds <= 5)
    }
}

/// The other loop.
private final class EpollHost {
    private let set = epoll_create1(Int32(EPOLL_CLOEXEC))

    deinit { close(set) }

    func watch(_ descriptor: Int32, edgeTriggered: Bool) {
        let events = EPOLLIN.rawValue | (edgeTriggered ? EPOLLET.rawValue : 0)
        precondition(crl_epoll_control(set, EPOLL_CTL_ADD, descriptor, events, 0) == 0)
    }

    func wait(until deadline: MonotonicInstant) {
        var event = crl_event()
        _ = crl_epoll_wait_one(set, &event, deadline.timeout)
    }
}

private func begin(_ mode: ThreadRunLoop.Mode = .default) -> ThreadRunLoop.DrivenRun {
    do { return try ThreadRunLoop.DrivenRun(mode: mode) } catch { preconditionFailure("\(error)") }
}

private func isReadable(_ run: ThreadRunLoop.DrivenRun) -> Bool { crl_poll(run.descriptor, -1, 0) == 1 }

/// Drives a run until it sleeps with nothing ready.
private func drive(_ run: ThreadRunLoop.DrivenRun) {
    while run.prepare() == .zero || isReadable(run) { if run.dispatch() != nil { return } }
}

/// Drives a run until its end.
private func drive(_ loop: ThreadRunLoop) {
    let driven = begin()
    repeat {
        _ = crl_poll(driven.descriptor, -1, MonotonicInstant(after: driven.prepare()).timeout)
    } while driven.dispatch() == nil
}
