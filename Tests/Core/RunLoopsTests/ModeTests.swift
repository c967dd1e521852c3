import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct ModeTests {
    @Test func `a common source that cannot be waited for is in no mode`() {
        let (error, isThere) = onThread {
            let loop = ThreadRunLoop.current
            let source = ThreadRunLoop.Source1.descriptor(-1) { _, _ in }
            do throws(RunLoopError) {
                try loop.add(source, forMode: .common)
                return (nil as RunLoopError?, true)
            } catch {
                return (error, loop.contains(source, forMode: .common) || loop.contains(source))
            }
        }
        #expect(error == .badDescriptor(-1))
        #expect(!isThere)
    }

    @Test func `a ready descriptor of another mode neither wakes the loop nor is lost`() {
        let results = onThread {
            let (loop, event, passes) = (ThreadRunLoop.current, madeEvent(), Shared(0))
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.add(ThreadRunLoop.Observer(.beforeTimers) { _, _ in passes.withLock { $0 += 1 } })
            add(.init(descriptor: event.descriptor) { _ in event.clear() > 0 }, to: loop, "other")
            event.raise()
            let results = [run(loop, seconds: 0.005), run(loop, "other", seconds: 20, returning: true)]
            return results + (passes.withLock { $0 } == 1 ? [] : [.stopped])
        }
        #expect(results == [.timedOut, .handledSource])
    }

    @Test func `a mode joins the common ones while another thread adds and removes common items`() throws {
        let thread = try RunLoopThread()
        let loop = thread.loop
        let sources = (0..<200).map { _ in ThreadRunLoop.Source0 {} }
        let helper = Helper {
            for source in sources { _ = try? loop.add(source, forMode: .common) }
            for source in sources { loop.remove(source, forMode: .common) }
        }
        let modes = (0..<100).map { ThreadRunLoop.Mode("mode \($0)") }
        for mode in modes { try loop.addCommonMode(mode) }
        helper.join()
        for mode in modes { #expect(!sources.contains { loop.contains($0, forMode: mode) }) }
    }

    @Test func `the last of two threads to change a common source has it in all the modes or in none`() throws {
        let thread = try RunLoopThread()
        let loop = thread.loop
        try loop.addCommonMode("other")
        let calls = Shared([String]())
        let (removal, addition) = (Latch(), Latch())
        let source = ThreadRunLoop.Source0(
            schedule: { _, _ in
                calls.withLock { $0.append("joins") }
                removal.open()
                _ = addition.wait(until: .patience)
            }, cancel: { _, _ in calls.withLock { $0.append("leaves") } }, perform: {})
        let helper = Helper { _ = try? loop.add(source, forMode: .common) }
        #expect(removal.wait(until: .patience))
        loop.remove(source, forMode: .common)
        addition.open()
        helper.join()
        #expect(calls.withLock { $0 } == ["joins", "leaves"])
        for mode in [.common, .default, "other"] as [ThreadRunLoop.Mode] {
            #expect(!loop.contains(source, forMode: mode))
        }
    }

    @Test func `a mode that a common source cannot join does not become a common one`() {
        let (isRight, sources) = onThread {
            let (loop, pipe) = (ThreadRunLoop.current, Pipe())
            let first = ThreadRunLoop.Source0 {}
            _ = try? loop.add(first, forMode: .common)
            add(ThreadRunLoop.Source1.descriptor(pipe.reader) { _, _ in }, to: loop, .common)
            // The number stays in use, by what cannot be waited for.
            let (number, file) = (pipe.reader, open("/proc/self/exe", O_RDONLY))
            dup2(file, number)
            close(file)
            let late = ThreadRunLoop.Source0 {}
            var thrown: RunLoopError?
            do throws(RunLoopError) { try loop.addCommonMode("new") } catch { thrown = error }
            _ = try? loop.add(late, forMode: .common)
            let isRight = thrown == .notPollable(number)
            return (isRight, [first, late].map { loop.contains($0, forMode: "new") })
        }
        #expect(isRight)
        #expect(sources == [false, false])
    }

    @Test func `what is another loop's does not become a common item`() throws {
        let first = try RunLoopThread()
        let timer = ThreadRunLoop.Timer(after: .seconds(1000)) { _ in }
        let observer = ThreadRunLoop.Observer(.entry) { _, _ in }
        let thread = try RunLoopThread()
        try thread.loop.add(timer)
        try thread.loop.add(observer)
        for loop in [first.loop, .main] {
            try loop.add(timer, forMode: .common)
            try loop.add(observer, forMode: .common)
            #expect(!loop.contains(timer, forMode: .common))
            #expect(!loop.contains(observer, forMode: .common))
        }
        timer.invalidate()
        observer.invalidate()
    }
}
