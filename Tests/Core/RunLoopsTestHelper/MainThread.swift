import Dispatch
import Glibc
import RunLoops
import Synchronization
import TestSupport

@MainActor
private final class Model {
    var ticks = 0
    var isOver = false
    var turns = ""

    func tick() { ticks += 1 }

    /// In a context of the main actor any closure is one of its own.
    func start() {
        ThreadRunLoop.main.addTimer(after: .milliseconds(1), repeats: true) { timer in
            self.tick()
            if self.ticks == 3 { timer.invalidate() }
        }
    }
}

/// The main actor's work, libdispatch's main queue and tasks that sleep, while the main thread is in our loop.
func serveTheMainThread() throws {
    try MainActor.assumeIsolated {
        let model = Model()
        model.start()
        try run(until: { model.ticks == 3 }, "its timer")

        // From any thread.
        let thread = try RunLoopThread()
        try thread.loop.perform { try? ThreadRunLoop.performOnMain { model.tick() } }
        try run(until: { model.ticks == 4 }, "a block of the main actor")
        let isOver = Atomic(false)
        try thread.loop.perform {
            // Waits, as the main thread does not.
            let ticks = try? ThreadRunLoop.main.performAndWait(ThreadRunLoop.mainActor { model.ticks })
            check(ticks == 4, "the main thread's answer was \(String(describing: ticks))")
            isOver.store(true, ordering: .releasing)
            ThreadRunLoop.main.stop()
        }
        try run(until: { isOver.load(ordering: .acquiring) }, "a block that another thread waits for")
        try thread.loop.perform {
            _ = try? ThreadRunLoop.main.add(
                ThreadRunLoop.Timer(after: .zero, handler: ThreadRunLoop.mainActor { _ in model.tick() }))
        }
        try run(until: { model.ticks == 5 }, "a timer of the main actor")

        DispatchQueue.main.async { MainActor.assumeIsolated { model.tick() } }
        try run(until: { model.ticks == 6 }, "the main queue")
        Task { @MainActor in
            model.tick()
            try? await Task.sleep(for: .milliseconds(1))
            model.tick()
            await Task.detached {}.value
            model.tick()
        }
        try run(until: { model.ticks == 9 }, "a task of the main actor")

        try ThreadRunLoop.main.addCommonMode("unused")
        let result = try ThreadRunLoop.main.runInMode("unused", seconds: 20)
        check(result == .finished, "a common mode to which nothing was ever added was run")

        // Not in a mode of its own; once a pass in a common one, as long as there is something.
        try ThreadRunLoop.main.add(ThreadRunLoop.Source0 {}, forMode: "private")
        DispatchQueue.main.async { MainActor.assumeIsolated { model.tick() } }
        try ThreadRunLoop.main.runInMode("private", seconds: 0.01)
        check(model.ticks == 9, "the main queue was served in a mode that is not common")
        try ThreadRunLoop.main.addCommonMode("private")
        try ThreadRunLoop.main.runInMode("private", seconds: 0)
        check(model.ticks == 10, "the main queue was not served in a common mode")

        var passes = 0
        let observer = ThreadRunLoop.main.addObserver(.beforeTimers) { _, _ in passes += 1 }
        requeue(5) { model.isOver = true }
        try run(until: { model.isOver }, "what the main queue queues itself")
        check(passes >= 5, "the main queue was served \(5 - passes) times more than passes began")
        observer.invalidate()

        var ends: [Int32] = [-1, -1]
        check(pipe(&ends) == 0 && write(ends[1], "x", 1) == 1, "no pipe")
        let source = ThreadRunLoop.Source1(descriptor: ends[0]) { _ in
            MainActor.assumeIsolated { model.turns += "d" }
            return true
        }
        try ThreadRunLoop.main.add(source)
        // In runs that return after each, and in one.
        requeue(6, each: { model.turns += "q" }) { model.isOver = false }
        try run(until: { !model.isOver }, "the main queue beside a descriptor")
        requeue(6, each: { model.turns += "q" }) { source.invalidate() }
        try ThreadRunLoop.main.add(
            ThreadRunLoop.Observer(.beforeTimers) { _, _ in
                if !source.isValid { ThreadRunLoop.main.stop() }
            })
        try ThreadRunLoop.main.runInMode(seconds: 20)
        let turns = model.turns
        check(
            !["dd", "qq"].contains(where: turns.contains), "main queue and descriptor took turns as \(turns)")
        for end in ends { close(end) }
    }
}

@MainActor private func requeue(
    _ count: Int, each: @escaping @MainActor @Sendable () -> Void = {},
    then body: @escaping @MainActor @Sendable () -> Void
) {
    if count == 0 { return body() }
    DispatchQueue.main.async {
        MainActor.assumeIsolated {
            each()
            requeue(count - 1, each: each, then: body)
        }
    }
}

@MainActor private func run(until isDone: () -> Bool, _ what: String) throws {
    let deadline = MonotonicInstant.now + .seconds(20)
    while !isDone() {
        check(!deadline.hasPassed, "\(what) did not come")
        try ThreadRunLoop.main.runInMode(seconds: 1, returnAfterSourceHandled: true)
    }
}
