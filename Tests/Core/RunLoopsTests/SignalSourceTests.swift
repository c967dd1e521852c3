import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread, .serialized) struct SignalSourceTests {
    @Test func `every source of a signal is told`() throws {
        let (first, second) = (try RunLoopThread(), try RunLoopThread())
        let (toldFirst, toldSecond) = (Latch(), Latch())
        let sources = [
            try ThreadRunLoop.Source1.signal(SIGUSR1) { _ in toldFirst.open() },
            try ThreadRunLoop.Source1.signal(SIGUSR1) { _ in toldSecond.open() },
        ]
        try first.loop.add(sources[0])
        try second.loop.add(sources[1])
        kill(getpid(), SIGUSR1)
        #expect(toldFirst.wait(until: .patience))
        #expect(toldSecond.wait(until: .patience))
        for source in sources { source.invalidate() }
    }

    @Test func `signals of one pass are counted`() {
        let counts = onThread {
            let (loop, counts) = (ThreadRunLoop.current, Shared<[Int]>([]))
            do {
                add(try .signal(SIGUSR2) { count in counts.withLock { $0.append(count) } }, to: loop)
            } catch {
                preconditionFailure("\(error)")
            }
            // Taken although threads may be started with all signals blocked, as a test's are.
            for _ in 0..<3 { pthread_kill(pthread_self(), SIGUSR2) }
            run(loop, seconds: 20, returning: true)
            run(loop, seconds: 0)
            return counts.withLock { $0 }
        }
        #expect(counts == [3])
    }

    @Test func `the signal's own action comes back with the last source's end`() throws {
        var before = sigaction()
        sigaction(SIGWINCH, nil, &before)
        var source: ThreadRunLoop.Source1? = try .signal(SIGWINCH) { _ in }
        var during = sigaction()
        sigaction(SIGWINCH, nil, &during)
        #expect(before.sa_flags & SA_RESTART == 0)
        #expect(during.sa_flags & SA_RESTART != 0)
        source?.invalidate()
        source = nil
        var after = sigaction()
        sigaction(SIGWINCH, nil, &after)
        #expect(after.sa_flags & SA_RESTART == 0)
    }

    @Test func `a handler that has invalidated its source raises the signal for its own action`() throws {
        var before = sigaction()
        sigaction(SIGWINCH, nil, &before)
        let thread = try RunLoopThread()
        let (source, after, handled) = (Shared<ThreadRunLoop.Source1?>(nil), Shared(sigaction()), Latch())
        let made = try ThreadRunLoop.Source1.signal(SIGWINCH) { _ in
            source.withLock { $0 }?.invalidate()
            after.withLock { _ = sigaction(SIGWINCH, nil, &$0) }
            handled.open()
        }
        source.withLock { $0 = made }
        try thread.loop.add(made)
        kill(getpid(), SIGWINCH)
        #expect(handled.wait(until: .patience))
        #expect(before.sa_flags & SA_RESTART == 0)
        #expect(after.withLock { $0.sa_flags } & SA_RESTART == 0)
        source.withLock { $0 = nil }
    }

    @Test(arguments: [0, -1, SIGKILL, SIGSTOP, 1000, SIGSEGV, SIGILL])
    func `a signal that cannot be watched is an error`(_ signal: Int32) {
        #expect(throws: RunLoopError.signalNotWatchable(signal)) {
            try ThreadRunLoop.Source1.signal(signal) { _ in }
        }
    }

    @Test func `too many sources of a signal are an error`() throws {
        var sources: [ThreadRunLoop.Source1] = []
        #expect(throws: RunLoopError.tooManySignalSources(signal: SIGURG)) {
            for _ in 0..<17 { sources.append(try .signal(SIGURG) { _ in }) }
        }
        #expect(sources.count == 16)
    }
}
