/// The environment variables with which a service manager such as systemd speaks to the one process that it starts. A
/// child that inherits them would speak for that process.
package enum ManagerVariables {
    package static let names: Set<String> = [
        "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDNAMES", "MAINPID", "WATCHDOG_USEC",
        "WATCHDOG_PID", "FDSTORE",
    ]
}
