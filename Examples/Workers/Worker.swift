import Glibc
import RunLoops
import TypedPorts

/// Answers the parent's requests until SIGTERM, or until the parent has ended.
func work() async throws {
    // Ctrl-C in a terminal signals a whole process group. The worker leaves its parent's: it ends after the parent.
    setpgid(0, 0)
    // First: until the sequence is made, SIGTERM ends the process at once.
    let signals = try SignalSequence([SIGTERM])
    let server = try RequestServer()
    server.handle(CountPrimes.self) { request in
        var count = 0
        for number in 2..<max(2, request.below) {
            if (2..<number).prefix(while: { $0 * $0 <= number }).allSatisfy({ number % $0 != 0 }) { count += 1 }
            // The parent may have given up.
            if number % 1000 == 0 { try Task.checkCancellation() }
        }
        return count
    }
    let parent = try await CheckIn.fromEnvironment().complete(with: server)
    // The library knows the end of the parent at once, also by SIGKILL. Nothing else tells this process.
    parent.onInvalidation { kill(getpid(), SIGTERM) }
    defer { withExtendedLifetime((signals, parent)) {} }
    async let running: Void = server.run()
    _ = try await signals.wait()
    // A handler that does not return must not keep the process.
    guard await server.finish(timeout: .seconds(5)) else { exit(1) }
    try await running
}
