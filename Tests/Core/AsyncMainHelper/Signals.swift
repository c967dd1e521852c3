import Glibc
import RunLoops
import TestSupport

/// Works in tasks until SIGTERM comes, and then ends the work. SIGTERM has its own action again afterwards.
@MainActor func workUntilStopped(blocksSignal: Bool = false) async throws {
    if blocksSignal {
        var mask = sigset_t()
        sigemptyset(&mask)
        sigaddset(&mask, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &mask, nil)
    }
    let signals = try SignalSequence([SIGTERM, SIGINT])
    let work = Task { while (try? await Task.sleep(for: .milliseconds(1))) != nil {} }
    _ = write(STDOUT_FILENO, "ready\n", 6)
    let signal = try await signals.wait()
    check(signal == SIGTERM, "signal \(signal)")
    work.cancel()
    await work.value
}

/// Five hundred tasks wait, each with a sequence of its own, and get all signals.
func waitInACrowd() async throws {
    let sequences = try (0..<500).map { _ in try SignalSequence([SIGUSR1, SIGUSR2]) }
    let taken = Shared(0)
    await withTaskGroup { group in
        for signals in sequences {
            group.addTask {
                var two: Set<Int32> = []
                for await signal in signals {
                    two.insert(signal)
                    taken.withLock { $0 += 1 }
                    if two.count == 2 { break }
                }
            }
        }
        kill(getpid(), SIGUSR1)
        await waitUntil { taken.withLock { $0 } == 500 }
        check(liveThreads() < 100, "\(liveThreads()) threads")
        kill(getpid(), SIGUSR2)
    }
}
