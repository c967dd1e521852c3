import Foundation
import FoundationPorts
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

/// Foundation's loop lives while ours runs.
@Suite(.ownThread) struct FoundationGuestTests {
    @Test func `timers, blocks and sources of both loops are served`() {
        let events = onThread {
            let (loop, events) = (ThreadRunLoop.current, Shared<[String]>([]))
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let timer = Foundation.Timer(timeInterval: 0.01, repeats: false) { _ in
                events.withLock { $0.append("Foundation's timer") }
                // A change of ours in a callout of Foundation's.
                try? loop.perform {
                    events.withLock { $0.append("block") }
                    loop.addTimer(after: .milliseconds(1)) { _ in
                        events.withLock { $0.append("timer") }
                        RunLoop.current.perform {
                            events.withLock { $0.append("Foundation's block") }
                            loop.stop()
                        }
                    }
                }
            }
            RunLoop.current.add(timer, forMode: .default)
            try? loop.run()
            return events.withLock { $0 }
        }
        #expect(events == ["Foundation's timer", "block", "timer", "Foundation's block"])
    }

    @Test func `a source of Foundation's is a handled source, its timer is not, and a time ends a run`() {
        let results = onThread {
            let loop = ThreadRunLoop.current
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {}, forMode: "mode")
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            var results: [ThreadRunLoop.RunResult?] = []
            let port = NSMachPort()
            RunLoop.current.add(port, forMode: RunLoop.Mode("mode"))
            _ = port.sendRight.map { try? $0.send(id: 1, bytes: [UInt8]().span.bytes) }
            results.append(try? loop.runInMode("mode", seconds: 20, returnAfterSourceHandled: true))
            RunLoop.current.add(Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in }, forMode: .default)
            let start = MonotonicInstant.now
            results.append(try? loop.runInMode(seconds: 0.02, returnAfterSourceHandled: true))
            #expect(.now - start > .milliseconds(19))
            RunLoop.current.perform { CFRunLoopStop(CFRunLoopGetCurrent()) }
            results.append(try? loop.runInMode(seconds: 20))
            port.invalidate()
            return results
        }
        #expect(results == [.handledSource, .timedOut, .stopped])
    }

    @Test func `each loop runs inside callouts of the other`() {
        let events = onThread {
            let (loop, events) = (ThreadRunLoop.current, Shared<[String]>([]))
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let timer = Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in
                // Foundation's loop inside Foundation's callout: ours is served in it, more than once.
                for number in 0..<3 {
                    let isDone = Shared(false)
                    loop.addTimer(after: .milliseconds(1)) { _ in
                        try? loop.perform {
                            events.withLock { $0.append("ours \(number)") }
                            isDone.withLock { $0 = true }
                        }
                    }
                    let deadline = Date.now + 20
                    while !isDone.withLock({ $0 }), Date.now < deadline {
                        _ = RunLoop.current.run(mode: .default, before: Date.now + 0.02)
                    }
                }
                // Ours inside it, with Foundation's inside that.
                let inner = Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in
                    events.withLock { $0.append("inner") }
                    loop.stop()
                }
                RunLoop.current.add(inner, forMode: .default)
                _ = try? loop.runInMode(seconds: 20)
                try? loop.perform { loop.stop() }
            }
            RunLoop.current.add(timer, forMode: .default)
            _ = (try? loop.runInMode(seconds: 20)).map { result in events.withLock { $0.append("\(result)") } }
            return events.withLock { $0 }
        }
        #expect(events == ["ours 0", "ours 1", "ours 2", "inner", "stopped"])
    }

    @Test(arguments: 1...3) func `Foundation's loop serves ours in runs inside callouts of ours`(depth: Int) {
        let events = onThread {
            let (loop, events) = (ThreadRunLoop.current, Shared<[String]>([]))
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.runInMode(seconds: 0.001)
            runNested(depth, in: loop, events)
            return events.withLock { $0 }
        }
        let inside = (1...depth).reversed().map { "in \($0)" }
        #expect(events == inside + (1...depth).map { "out \($0)" })
    }

    /// Runs Foundation's loop until a block of ours is done, which does the same one time less.
    private func runNested(_ depth: Int, in loop: ThreadRunLoop, _ events: Shared<[String]>) {
        let isDone = Shared(false)
        loop.addTimer(after: .milliseconds(1)) { _ in
            try? loop.perform {
                events.withLock { $0.append("in \(depth)") }
                if depth > 1 { runNested(depth - 1, in: loop, events) }
                events.withLock { $0.append("out \(depth)") }
                isDone.withLock { $0 = true }
            }
        }
        let deadline = Date.now + 10
        while !isDone.withLock({ $0 }), .now < deadline {
            _ = RunLoop.current.run(mode: .default, before: .now + 0.02)
        }
    }

    @Test func `our loop runs inside a callout of ours in Foundation's run`() {
        let results = onThread {
            let (loop, results) = (ThreadRunLoop.current, Shared<[ThreadRunLoop.RunResult?]>([]))
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.runInMode(seconds: 0.001)
            try? loop.perform {
                loop.addTimer(after: .milliseconds(1)) { _ in loop.stop() }
                let result = try? loop.runInMode(seconds: 10)
                results.withLock { $0.append(result) }
                CFRunLoopStop(CFRunLoopGetCurrent())
            }
            CFRunLoopRunInMode(CFRunLoopMode.defaultMode, 10, false)
            return results.withLock { $0 }
        }
        #expect(results == [.stopped])
    }

    @Test func `a run of Foundation's goes on to serve a loop that first ran inside it`() {
        let isServed = onThread {
            let (loop, isServed) = (ThreadRunLoop.current, Shared(false))
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let timer = Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in
                _ = try? loop.runInMode(seconds: 0.001)
                loop.addTimer(after: .milliseconds(1)) { _ in
                    isServed.withLock { $0 = true }
                    CFRunLoopStop(CFRunLoopGetCurrent())
                }
            }
            RunLoop.current.add(timer, forMode: .default)
            CFRunLoopRunInMode(CFRunLoopMode.defaultMode, 10, false)
            return isServed.withLock { $0 }
        }
        #expect(isServed)
    }

    @Test(arguments: 1...3) func `a guest that ends inside callouts leaves nothing behind`(depth: Int) {
        onThread {
            let loop = ThreadRunLoop.current
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.runInMode(seconds: 0.001)
            endGuest(depth, in: loop)
            #expect(loop.guest == nil)
            #expect(RunLoop.current.run(mode: .default, before: .now) == false)
            #expect(loop.currentMode == nil)
            #expect((try? loop.runInMode(seconds: 0.001)) == .timedOut)
        }
    }

    private func endGuest(_ depth: Int, in loop: ThreadRunLoop) {
        let isDone = Shared(false)
        try? loop.perform {
            if depth > 1 { endGuest(depth - 1, in: loop) } else { loop.guest = nil }
            isDone.withLock { $0 = true }
        }
        let deadline = Date.now + 10
        while !isDone.withLock({ $0 }), .now < deadline {
            _ = RunLoop.current.run(mode: .default, before: .now + 0.02)
        }
    }

    @Test func `a stop of Foundation's counts after a run inside the callout was stopped`() {
        let result = onThread {
            let loop = ThreadRunLoop.current
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let timer = Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in
                let inner = Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in loop.stop() }
                RunLoop.current.add(inner, forMode: .default)
                _ = try? loop.runInMode(seconds: 20)
                CFRunLoopStop(CFRunLoopGetCurrent())
            }
            RunLoop.current.add(timer, forMode: .default)
            return try? loop.runInMode(seconds: 20)
        }
        #expect(result == .stopped)
    }

    @Test func `a stop of Foundation's in a source's callout stops the run`() {
        let result = onThread {
            let loop = ThreadRunLoop.current
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let (port, stopper) = (NSMachPort(), Stopper())
            port.setDelegate(stopper)
            RunLoop.current.add(port, forMode: .default)
            _ = port.sendRight.map { try? $0.send(id: 1, bytes: [UInt8]().span.bytes) }
            defer { port.invalidate() }
            return withExtendedLifetime(stopper) { try? loop.runInMode(seconds: 20) }
        }
        #expect(result == .stopped)
    }

    @Test func `a run inside a callout of Foundation's leaves the outer run its time`() {
        let (result, time) = onThread {
            let loop = ThreadRunLoop.current
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let timer = Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in
                _ = try? loop.runInMode(seconds: 0.01)
            }
            RunLoop.current.add(timer, forMode: .default)
            // Ends the test if nothing else does.
            let end = Foundation.Timer(fire: .now + 10, interval: 0, repeats: false) { _ in loop.stop() }
            RunLoop.current.add(end, forMode: .default)
            defer { end.invalidate() }
            let start = MonotonicInstant.now
            return (try? loop.runInMode(seconds: 0.1), .now - start)
        }
        #expect(result == .timedOut)
        #expect(time >= .milliseconds(100))
    }

    @Test func `a time ends a run while a source of Foundation's is always ready`() {
        let result =
            onThread {
                let loop = ThreadRunLoop.current
                loop.serveFoundation()
                _ = try? loop.add(ThreadRunLoop.Source0 {})
                var context = CFRunLoopSourceContext()
                let place = UnsafeMutablePointer<CFRunLoopSource?>.allocate(capacity: 1)
                place.initialize(to: nil)
                defer { place.deinitialize(count: 1).deallocate() }
                context.info = UnsafeMutableRawPointer(place)
                context.perform = { info in
                    if let source = info?.assumingMemoryBound(to: CFRunLoopSource?.self).pointee {
                        CFRunLoopSourceSignal(source)
                    }
                }
                guard let source = CFRunLoopSourceCreate(nil, 0, &context) else { return .finished }
                place.pointee = source
                CFRunLoopAddSource(CFRunLoopGetCurrent(), source, .defaultMode)
                CFRunLoopSourceSignal(source)
                defer { CFRunLoopSourceInvalidate(source) }
                let count = Shared(0)
                loop.addTimer(after: .milliseconds(1), repeats: true) { _ in count.withLock { $0 += 1 } }
                let result = try? loop.runInMode(seconds: 0.5)
                #expect(count.withLock { $0 } > 2)
                return result
            } as ThreadRunLoop.RunResult?
        #expect(result == .timedOut)
    }

    @Test func `no wake-up is lost, and two idle loops sleep`() throws {
        let thread = try RunLoopThread { loop in loop.serveFoundation() }
        let loop = thread.loop
        let (all, count, done) = (500_000, Shared(0), Latch())
        let (ticks, mayTick, hasEnded) = (Shared(0), Shared(true), Latch())
        try loop.perform {
            let timer = Foundation.Timer(timeInterval: 0.001, repeats: true) { timer in
                let count = ticks.withLock { ticks in
                    ticks += 1
                    return ticks
                }
                if !mayTick.withLock({ $0 }) {
                    timer.invalidate()
                    hasEnded.open()
                }
                // From inside Foundation, too.
                if count % 2 == 0 { try? loop.perform {} }
            }
            RunLoop.current.add(timer, forMode: .default)
        }
        let helpers = (0..<2).map { index in
            Helper {
                for burst in bursts(of: all, thread: index, most: 1009) {
                    for _ in 0..<burst {
                        try? loop.perform {
                            let count = count.withLock { count in
                                count += 1
                                return count
                            }
                            if count == 2 * all { done.open() }
                        }
                    }
                    sched_yield()
                }
            }
        }
        #expect(done.wait(until: .patience), "\(count.withLock { $0 })")
        for helper in helpers { helper.join() }
        #expect(waitUntil { ticks.withLock { $0 } > 5 })
        mayTick.withLock { $0 = false }
        #expect(hasEnded.wait(until: .patience))
        let passes = Shared(0)
        try loop.perform { _ = try? loop.add(.init(.beforeWaiting) { _, _ in passes.withLock { $0 += 1 } }) }
        waitUntil { loop.isWaiting && passes.withLock { $0 } > 0 }
        // Meanwhile another thread's loop makes a hundred passes.
        onThread {
            let turns = Shared(0)
            ThreadRunLoop.current.addTimer(after: .milliseconds(1), repeats: true) { timer in
                turns.withLock { turns in
                    turns += 1
                    if turns == 100 { timer.invalidate() }
                }
            }
            try? ThreadRunLoop.current.run()
        }
        #expect(passes.withLock { $0 } < 4)
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `Foundation's loop is on its own again without a guest`() {
        onThread {
            let loop = ThreadRunLoop.current
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.runInMode(seconds: 0.001)
            loop.guest = nil
            #expect(RunLoop.current.run(mode: .default, before: .now) == false)
        }
    }
}

/// Stops Foundation's loop at a message.
private final class Stopper: PortDelegate {
    func handle(_ message: PortMessage) { CFRunLoopStop(CFRunLoopGetCurrent()) }
}
