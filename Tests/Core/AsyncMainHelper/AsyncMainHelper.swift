import Dispatch
import Glibc
import RunLoops
import TestSupport

/// Programs whose `main` is async. Each ends with status 0 when all is well.
@main
struct AsyncMainHelper {
    static func main() async throws {
        alarm(60)
        switch CommandLine.arguments.dropFirst().first {
        case "first-thread": await stayOnTheFirstThread()
        case "stop": try await workUntilStopped()
        case "stop-blocked": try await workUntilStopped(blocksSignal: true)
        case "stop-again":
            try await workUntilStopped()
            raise(SIGTERM)
        case "crowd": try await waitInACrowd()
        case "niceness": await askForTooMuch()
        case let command: fail("unknown command \(command ?? "")")
        }
    }

    private static func askForTooMuch() async {
        var none = rlimit()
        // The administrator has the right. RLIMIT_NICE is 13, which Glibc's module map leaves out.
        check(geteuid() != 0 || seteuid(65534) == 0, "cannot become another user")
        check(setrlimit(13, &none) == 0, "the limit cannot be set")
        do throws(RunLoopError) {
            _ = try await RunLoopThread(niceness: -5)
            fail("the thread was started")
        } catch {
            check(error == .nicenessRefused(-5), "\(error)")
        }
    }

    /// Everything of the main actor's stays on the process's first thread, with the main loop's items served there.
    @MainActor private static func stayOnTheFirstThread() async {
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
            _ = try? ThreadRunLoop.main.add(
                ThreadRunLoop.Timer(after: .milliseconds(1)) { _ in
                    MainActor.assumeIsolated { continuation.resume() }
                })
        }
        stages.append(("after a timer", isFirstThread))
        ThreadRunLoop.main.stop()
        await withCheckedContinuation { continuation in
            try? ThreadRunLoop.main.perform(ThreadRunLoop.mainActor { continuation.resume() })
        }
        stages.append(("after a stop", isFirstThread))
        for (stage, isFirst) in stages where !isFirst {
            fail("\(stage), main is on another thread")
        }
    }
}
