import Dispatch
import Glibc
import RunLoops
import TestSupport

/// A program whose `main` is async: everything of the main actor's stays on the process's first thread, with the main
/// loop's items served there.
@main
struct AsyncMainHelper {
    static func main() async {
        alarm(60)
        let first = pthread_self()
        var isFirstThread: Bool { pthread_equal(pthread_self(), first) != 0 }
        var stages: [(String, Bool)] = []
        await Task.yield()
        stages.append(("after a yield", isFirstThread))
        try? await Task.sleep(for: .milliseconds(1))
        stages.append(("after a sleep", isFirstThread))
        await Task.detached {}.value
        stages.append(("after a task", isFirstThread))
        await withCheckedContinuation { continuation in
            DispatchQueue.main.async { continuation.resume() }
        }
        stages.append(("after the main queue", isFirstThread))
        await withCheckedContinuation { continuation in
            ThreadRunLoop.main.add(
                ThreadRunLoop.Timer(after: .milliseconds(1)) { _ in
                    MainActor.assumeIsolated { continuation.resume() }
                })
        }
        stages.append(("after a timer", isFirstThread))
        ThreadRunLoop.main.stop()
        await withCheckedContinuation { continuation in
            ThreadRunLoop.main.perform(ThreadRunLoop.mainActor { continuation.resume() })
        }
        stages.append(("after a stop", isFirstThread))
        for (stage, isFirst) in stages where !isFirst {
            fail("\(stage), main is on another thread")
        }
    }
}
