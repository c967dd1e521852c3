import Glibc
import RunLoops
import TestSupport

// Broken contracts, each of which has to stop the process.

/// A closure that belongs to one thread, called on another.
func callALocalClosureElsewhere() throws -> Never {
    let handler = try RunLoopThread().run { ThreadRunLoop.local {} }
    handler()
    fail("the handler was called")
}

/// A closure that is not `@Sendable`, added from another thread.
func addALocalTimerElsewhere() throws -> Never {
    let thread = try RunLoopThread()
    thread.loop.addTimer(after: .zero) { _ in }
    fail("the timer was added")
}

/// A closure of the main actor, called on another thread.
func callTheMainActorElsewhere() throws -> Never {
    try RunLoopThread().run(ThreadRunLoop.mainActor {})
    fail("the main actor was somewhere else")
}

/// An actor that lives on a loop, assumed to be on another thread.
func assumeAnActorElsewhere() throws -> Never {
    let thread = try RunLoopThread()
    Resident(thread.loop).call()
    fail("the actor was somewhere else")
}

/// A driven run in its own callout, or around a run that has not ended.
func driveOutOfTurn(inCallout: Bool) throws -> Never {
    let (loop, run) = (ThreadRunLoop.current, try ThreadRunLoop.DrivenRun())
    if inCallout {
        try loop.perform(ThreadRunLoop.local { run.dispatch() })
    } else {
        _ = Unmanaged.passRetained(try ThreadRunLoop.DrivenRun(mode: "inner"))
    }
    run.dispatch()
    fail("the run was driven")
}

/// The loop's own descriptors of a kind, closed by somebody else.
func closeBehindTheLoopsBack(_ kind: String) throws -> Never {
    alarm(20)
    let loop = ThreadRunLoop.current
    loop.addTimer(after: .seconds(60)) { _ in }
    try loop.runInMode(seconds: 0)
    for descriptor in Int32(3)..<64 where link(of: descriptor).contains("[\(kind)]") { close(descriptor) }
    loop.addTimer(after: .seconds(30)) { _ in }
    let waker = Helper {
        waitUntil { loop.isWaiting }
        loop.wakeUp()
    }
    try loop.runInMode(seconds: 1)
    waker.join()
    fail("the loop went on")
}

private func link(of descriptor: Int32) -> String {
    var buffer = [CChar](repeating: 0, count: 256)
    let count = readlink("/proc/self/fd/\(descriptor)", &buffer, buffer.count)
    return String(decoding: buffer.prefix(max(count, 0)).map(UInt8.init(bitPattern:)), as: UTF8.self)
}

private actor Resident {
    nonisolated let loop: ThreadRunLoop
    private var calls = 0

    init(_ loop: ThreadRunLoop) { self.loop = loop }

    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    nonisolated func call() { assumeIsolated { $0.calls += 1 } }
}
