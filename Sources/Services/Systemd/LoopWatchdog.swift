import Glibc
import RunLoops

extension SystemdDaemon {
    /// Ties the service manager's watchdog to a loop: a timer of the loop sends the signs of life, so that a loop that is
    /// stuck sends none, and the manager restarts the service.
    ///
    ///     try SystemdDaemon.addWatchdog(to: .main)
    ///
    /// The timer fires four times in a ``watchdogPeriod``. A `StallMonitor` reports a pass that takes longer than half of
    /// the period as the service's status, with the item that blocks the loop, until the pass is over. So
    /// `systemctl status` shows the cause before the restart.
    /// - Parameters:
    ///   - loop: The loop. Any thread may call this method.
    ///   - mode: The mode of the timer. A loop that runs for long in modes without it counts as stuck.
    /// - Returns: The timer, whose `invalidate()` ends the signs of life and the monitor. Nil when the manager does not
    ///   watch this process.
    /// - Throws: ``SystemdError``: `badVariable`, or `runLoop` when the loop has ended or no thread is left for the
    ///   monitor.
    @discardableResult
    public static func addWatchdog(
        to loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .common
    ) throws(SystemdError) -> ThreadRunLoop.Timer? {
        try ManagerConnection.shared.addWatchdog(to: loop, forMode: mode, of: getpid())
    }
}

extension ManagerConnection {
    func addWatchdog(
        to loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode, of process: pid_t
    ) throws(SystemdError) -> ThreadRunLoop.Timer? {
        guard let interval = try watchdogInterval(of: process) else { return nil }
        do throws(RunLoopError) {
            let monitor = try StallMonitor(loop, threshold: interval * 2) { [self] stall in
                report(stall.isOver ? nil : "\(stall)")
            }
            // The timer keeps the monitor, and releases it with its handler.
            let timer = ThreadRunLoop.Timer(at: .now, every: interval, label: "watchdog") { [self] _ in
                withExtendedLifetime(monitor) { sendAlive() }
            }
            try loop.add(timer, forMode: mode)
            return timer
        } catch {
            throw .runLoop(error)
        }
    }
}
