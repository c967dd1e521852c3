import Glibc

extension SystemdDaemon {
    /// The time after which the service manager restarts this process if it gets no sign of life: `WatchdogSec=` of the
    /// unit. Nil when the manager does not watch this process. The corresponding C function is `sd_watchdog_enabled`.
    /// - Throws: ``SystemdError``: `badVariable`.
    public static var watchdogPeriod: Duration? {
        get throws(SystemdError) { try ManagerConnection.shared.watchdogPeriod(of: getpid()) }
    }
}

extension ManagerConnection {
    func watchdogPeriod(of process: pid_t) throws(SystemdError) -> Duration? {
        guard let period = try environment.number("WATCHDOG_USEC", in: 1...UInt64.max - 1) else { return nil }
        if environment["WATCHDOG_PID"] == nil { return .microseconds(period) }
        return try environment.isMeant(for: process, by: "WATCHDOG_PID") ? .microseconds(period) : nil
    }

    /// The time from one sign of life to the next: a quarter of the period, so that one that comes late does no harm. Nil
    /// when the manager does not watch the process, or has no socket for signs of life.
    func watchdogInterval(of process: pid_t) throws(SystemdError) -> Duration? {
        let period = try watchdogPeriod(of: process)
        return address == nil ? nil : period.map { max($0 / 4, .milliseconds(1)) }
    }
}
