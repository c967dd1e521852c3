import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct DumpTests {
    @Test func `a dump shows the thread, what it does, and each mode with each item`() {
        let (dump, thread) = onThread {
            let (loop, event) = (ThreadRunLoop.current, madeEvent())
            let source = ThreadRunLoop.Source0(order: 2, label: "commands") {}
            _ = try? loop.add(source)
            source.signal()
            add(ThreadRunLoop.Source1(descriptor: event.descriptor, label: "events") { _ in true }, to: loop)
            let timer = ThreadRunLoop.Timer(after: .seconds(1000), repeats: true, label: "heartbeat") { _ in }
            _ = try? loop.add(timer)
            _ = try? loop.add(ThreadRunLoop.Timer(at: .distantFuture) { _ in }, forMode: "other")
            try? loop.perform(inModes: ["other"]) {}
            let dump = Shared("")
            _ = try? loop.add(
                ThreadRunLoop.Observer([.entry, .exit], order: -1, label: "watcher") { _, activity in
                    if activity == .exit { dump.withLock { $0 = "\(loop)" } }
                })
            run(loop, seconds: 0)
            return (dump.withLock { $0 }, "\(loop)")
        }
        let lines = dump.split(separator: "\n").map(String.init)
        #expect(lines.count == 9, "\(dump)")
        guard lines.count == 9 else { return }
        #expect(lines[0].hasPrefix("run loop of thread "))
        #expect(lines[0].hasSuffix(", running in mode default"))
        #expect(lines[1] == "  mode default, common: 4 items")
        #expect(lines[2] == "    source \"commands\", order 2, performed 1 time")
        #expect(lines[3].hasPrefix("    source of descriptor "))
        #expect(lines[3].hasSuffix("\"events\", order 0, performed 0 times"))
        #expect(lines[4].hasPrefix("    timer \"heartbeat\", every 1000.0 s, due in 9"))
        #expect(lines[4].hasSuffix(" s, order 0, fired 0 times"))
        #expect(lines[5] == "    observer \"watcher\", of [entry, exit], order -1, repeats, told 2 times, being called")
        #expect(lines[6] == "  mode other: 1 item")
        #expect(lines[7] == "    timer, never due, order 0, fired 0 times")
        #expect(lines[8] == "    1 block to perform")
        #expect(thread.contains("not running"))
    }

    @Test func `nested runs, waiting and the end show`() throws {
        let thread = try RunLoopThread()
        waitUntil { thread.loop.isWaiting }
        #expect("\(thread.loop)".contains(", waiting in mode default\n"))
        let nested = try thread.run {
            let (loop, dump) = (ThreadRunLoop.current, Shared(""))
            try loop.perform(inModes: ["inner"]) { dump.withLock { $0 = "\(loop)" } }
            run(loop, "inner", seconds: 0)
            return dump.withLock { $0 }
        }
        #expect(nested.contains(", running in mode inner inside of [\"default\"]\n"))
        thread.stop()
        #expect(thread.join(before: .patience))
        #expect("\(thread.loop)".contains(", ended\n"))
    }

    @Test func `the longest interval there is shows`() {
        let timer = ThreadRunLoop.Timer(at: .distantFuture, every: .seconds(Int64.max)) { _ in }
        #expect("\(timer)".contains("every 9.2"))
    }

    @Test func `an item that is invalid says so`() {
        let timer = ThreadRunLoop.Timer(after: .seconds(1), label: "late") { _ in }
        timer.invalidate()
        #expect("\(timer)" == "timer \"late\", invalid, order 0, fired 0 times")
    }
}
