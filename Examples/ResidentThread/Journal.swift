import RunLoops

/// Writes lines on a thread of its own, in order, without keeping its callers waiting.
final class Journal: Sendable {
    private let thread: RunLoopThread

    init() throws(RunLoopError) { thread = try RunLoopThread(name: "journal") }

    func write(_ line: String) {
        try? thread.loop.perform { print("   Journal: \(line)") }
    }

    /// The thread would stop when its owner lets go of it, and leave what it has not called yet. What this one was
    /// given before is called first: blocks keep their order.
    deinit {
        try? thread.run { print("   Journal: my owner lets go of me.") }
        thread.stop()
        print("   The journal's thread \(thread.join() ? "has ended" : "goes on").")
    }
}
