import Glibc
import RunLoops

extension SystemdDaemon {
    /// Ties the service manager's watchdog to the threads that serve tasks, and to a check. A check that does not return,
    /// or throws, sends no sign of life, and the manager restarts the service:
    ///
    ///     try await SystemdDaemon.runWatchdog { timeout in
    ///         // Asks the database, for example, and throws when there is no answer.
    ///     }
    ///
    /// The check is made four times in a ``watchdogPeriod``. The error of a check that throws becomes the service's status,
    /// until a check succeeds.
    ///
    /// The call returns when the task is cancelled. When the manager does not watch this process, there are no checks.
    /// - Parameter check: Returns when the service works. It gets the time that it may take, a quarter of the period.
    /// - Throws: ``SystemdError``: `badVariable`, at once.
    @concurrent
    public static func runWatchdog(
        _ check: @Sendable (_ timeout: Duration) async throws -> Void = { _ in }
    ) async throws(SystemdError) {
        try await ManagerConnection.shared.runWatchdog(of: getpid(), check)
    }

    /// Ties the service manager's watchdog to an actor: it is the actor that sends the signs of life, so that an actor that
    /// is stuck sends none, and the manager restarts the service.
    ///
    /// The actor is asked four times in a ``watchdogPeriod``. An actor that awaits something is not stuck: it is free
    /// meanwhile. The call returns when the task is cancelled.
    /// - Parameter actor: The actor, such as `MainActor.shared`.
    /// - Throws: ``SystemdError``: `badVariable`, at once.
    public static func runWatchdog(on actor: isolated some Actor) async throws(SystemdError) {
        try await ManagerConnection.shared.runWatchdog(of: getpid()) { _ in }
    }
}

extension ManagerConnection {
    /// Makes the checks, and sends the signs of life, on the caller's actor.
    nonisolated(nonsending) func runWatchdog(
        of process: pid_t, _ check: @Sendable (_ timeout: Duration) async throws -> Void
    ) async throws(SystemdError) {
        // Without a watchdog, only for the cancellation.
        let interval = try watchdogInterval(of: process)
        var isInTrouble = false
        while !Task.isCancelled {
            let start = ContinuousClock.now
            if let interval {
                do {
                    try await check(interval)
                    sendAlive()
                    if isInTrouble { report(nil) }
                    isInTrouble = false
                } catch {
                    if !isInTrouble, !Task.isCancelled { report("the watchdog's check fails: \(error)") }
                    isInTrouble = true
                }
            }
            try? await Task.sleep(until: start + (interval ?? .seconds(3600)))
        }
    }
}
