import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

/// Each test has a real-time signal of its own: the kernel merges none of these, and other tests use others.
@Suite(.ownThread) struct SignalSequenceTests {
    @Test func `signals wait for a task that takes them`() async throws {
        let (signals, probe) = (try SignalSequence([40, 41]), try SignalSequence([40, 41]))
        for signal in [40, 41, 40] as [Int32] {
            kill(getpid(), signal)
            #expect(try await probe.wait() == signal)
        }
        var taken: [Int32] = []
        for await signal in signals {
            taken.append(signal)
            if taken.count == 3 { break }
        }
        #expect(taken == [40, 40, 41])
    }

    @Test func `a signal wakes a task of each sequence, and every source`() async throws {
        let sequences = try (0..<40).map { _ in try SignalSequence([42]) }
        let (thread, told) = (try await RunLoopThread(), Latch())
        let source = try ThreadRunLoop.Source1.signal(42) { _ in told.open() }
        try thread.loop.add(source)
        let tasks = sequences.map { signals in Task { try await signals.wait() } }
        kill(getpid(), 42)
        for task in tasks { #expect(try await task.value == 42) }
        #expect(onThread { told.wait(until: .patience) })
        source.invalidate()
    }

    // The thread sanitizer tells of signals that wait together only once.
    @Test(.enabled(if: sanitizerOptions.isEmpty))
    func `of the tasks with one sequence, one gets each signal`() async throws {
        let signals = try SignalSequence([43])
        let tasks = (0..<20).map { _ in Task { try await signals.wait() } }
        for _ in tasks { kill(getpid(), 43) }
        for task in tasks { #expect(try await task.value == 43) }
    }

    @Test func `a cancelled task waits no more, and a signal goes to the next`() async throws {
        let signals = try SignalSequence([44])
        let waiting = Task { try await signals.wait() }
        let walking = Task { for await _ in signals { Issue.record("a signal") } }
        waiting.cancel()
        walking.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        await walking.value
        let next = Task { try await signals.wait() }
        kill(getpid(), 44)
        #expect(try await next.value == 44)
    }

    @Test func `the signal's own action is back when the last sequence is released`() async throws {
        for _ in 0..<200 {
            var signals: SignalSequence? = try SignalSequence([45])
            let other = signals
            #expect(isWatched(45))
            kill(getpid(), 45)
            #expect(try await signals?.wait() == 45)
            signals = nil
            #expect(isWatched(45))
            _ = consume other
            #expect(!isWatched(45))
        }
    }

    @Test(.serialized, arguments: [0, -1, SIGKILL, SIGSTOP, 1000, SIGSEGV])
    func `with a signal that cannot be watched, none is`(_ signal: Int32) {
        #expect(throws: RunLoopError.signalNotWatchable(signal)) { try SignalSequence([46, signal]) }
        #expect(!isWatched(46))
    }

    private func isWatched(_ signal: Int32) -> Bool {
        var action = sigaction()
        sigaction(signal, nil, &action)
        return action.sa_flags & SA_RESTART != 0
    }
}

/// The same in programs with an async `main`, which a signal from outside asks to stop.
@Suite(.ownThread) struct SignalledProcessTests {
    @Test(arguments: ["stop": 0, "stop-blocked": 0, "stop-again": -SIGTERM])
    func `a program that awaits SIGTERM ends as it wants to`(_ command: String, _ status: Int32) {
        let run = Run(["\(Child.folder)/AsyncMainHelper", command])
        waitUntil { run.output == Array("ready\n".utf8) }
        run.child.signal(SIGTERM)
        #expect(run.child.wait() == status, "\(String(decoding: run.errors, as: UTF8.self))")
    }

    @Test func `tasks that wait for signals hold no threads`() {
        #expect(helper("crowd", of: "AsyncMainHelper") == 0)
    }
}
