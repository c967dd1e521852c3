import Glibc
import RunLoops
import TestSupport

/// With few descriptors left each thing that takes one ends well or with an error that names the limit, and gives back
/// what it has taken; with enough of them everything works again.
func runOutOfDescriptors() throws {
    check(pipe(&ends) == 0, "no pipe")
    // Makes the thread of all sequences.
    _ = try SignalSequence([SIGUSR2])
    let used = openDescriptors()
    for free in 0..<12 {
        setLimit(used + free)
        let failures = try use(free)
        check(failures > 0 || free > 5, "there were no errors with \(free) descriptors")
        check(openDescriptors() == used, "\(openDescriptors()) descriptors instead of \(used), \(free) were free")
    }
    setLimit(256)
    check(try use(100) == 0, "there were errors with descriptors enough")
}

// Sound: written before there is another thread.
private nonisolated(unsafe) var ends: [Int32] = [-1, -1]

/// Uses descriptors in every way that there is, and counts the ways that failed.
private func use(_ free: Int) throws -> Int {
    let failures = Failures(limit: free < 100 ? openDescriptors() + free : 256)
    // Threads: what a loop has taken goes with its thread.
    for _ in 0..<2 {
        failures.count { _ = try SignalSequence([SIGUSR2, SIGTERM]) }
        // Their ends are waited for before descriptors are counted.
        failures.count {
            let thread = try RunLoopThread()
            thread.stop()
            thread.join()
        }
        let thread = Helper {
            let loop = ThreadRunLoop.current
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            for _ in 0..<2 {
                failures.count { try loop.runInMode(.default, seconds: 0) }
                for made in sources() {
                    failures.count {
                        let source = try made()
                        defer { source.invalidate() }
                        try loop.add(source, forMode: .common)
                        try loop.runInMode(.default, seconds: 0)
                        try loop.addCommonMode(.init("other \(free)"))
                    }
                }
            }
        }
        thread.join()
    }
    return failures.total
}

private func sources() -> [() throws -> ThreadRunLoop.Source1] {
    [
        { .descriptor(ends[0]) { _, _ in } },
        { try .signal(SIGUSR1) { _ in } },
        { try .file("/") { _ in } },
        { try .child(spawn(["/bin/true"])) { _ in } },
    ]
}

// Sound: used by one thread at a time.
private final class Failures: @unchecked Sendable {
    private let limit: UInt64
    private(set) var total = 0

    init(limit: Int) { self.limit = UInt64(limit) }

    func count(_ body: () throws -> Void) {
        do {
            try body()
        } catch RunLoopError.outOfFileSources {
            // Other processes of the user have them all, at the moment.
        } catch {
            guard error as? RunLoopError == .outOfDescriptors(limit: limit) else {
                fail("\(error), and not that the limit is \(limit)")
            }
            check("\(error)".contains("the limit is \(limit)"), "\(error) does not name the limit")
            total += 1
        }
    }
}

private func setLimit(_ limit: Int) {
    var limits = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limits)
    limits.rlim_cur = rlim_t(limit)
    check(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limits) == 0, "the limit cannot be set")
}
