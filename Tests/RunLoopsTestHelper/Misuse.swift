import RunLoops

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

private actor Resident {
    nonisolated let loop: ThreadRunLoop
    private var calls = 0

    init(_ loop: ThreadRunLoop) { self.loop = loop }

    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    nonisolated func call() { assumeIsolated { $0.calls += 1 } }
}
