import CRunLoopShims
import Glibc
import RunLoops

/// The service manager of this process: systemd, or another one that speaks its protocol.
///
/// A manager that starts a process names a socket in the environment, and the process tells it there how it is:
///
///     try SystemdDaemon.notify(.ready, .status("12 clients"))
///
/// Without a manager, and in a forked child, there is nothing to do: the calls return false or nil. The variables are read
/// once, at the first use. Any thread and any task may call everything. libsystemd is not needed.
public enum SystemdDaemon {
    /// Something to tell the service manager. `SystemdDaemon.notify` sends it.
    public struct Notification: Sendable, Hashable {
        enum Kind: Sendable, Hashable {
            case lines([String])
            /// The time is that of the sending.
            case reloading
            case status(String)
            case extendTimeout(Duration)
            case storeDescriptors([Int32], name: String, isPolled: Bool)
            case removeDescriptors(name: String)
        }

        let kind: Kind

        private init(_ kind: Kind) { self.kind = kind }
    }
}

extension SystemdDaemon.Notification {
    /// The service has started, or has reloaded its settings. Send it when the names are registered: programs that the
    /// manager starts next may ask at once. The corresponding line is `READY=1`.
    public static let ready = Self(.lines(["READY=1"]))

    /// The service begins to end. The corresponding line is `STOPPING=1`.
    public static let stopping = Self(.lines(["STOPPING=1"]))

    /// The service begins to reload its settings, and sends ``ready`` when it is done. The corresponding lines are
    /// `RELOADING=1` and `MONOTONIC_USEC`, with the time of the sending, which `Type=notify-reload` needs.
    public static let reloading = Self(.reloading)

    /// The service is alive. ``SystemdDaemon/addWatchdog(to:forMode:)`` and ``SystemdDaemon/runWatchdog(_:)`` send it
    /// by themselves. The corresponding line is `WATCHDOG=1`.
    public static let alive = Self(.lines(["WATCHDOG=1"]))

    /// The service is stuck: the manager treats it at once as one whose watchdog has timed out. The corresponding line
    /// is `WATCHDOG=trigger`.
    public static let stuck = Self(.lines(["WATCHDOG=trigger"]))

    /// A line for people, which `systemctl status` shows. A control character becomes a space. The corresponding line is
    /// `STATUS=`.
    public static func status(_ text: String) -> Self { Self(.status(text)) }

    /// The service fails with this error number. The corresponding line is `ERRNO=`.
    public static func failed(errno: Int32) -> Self { Self(.lines(["ERRNO=\(errno)"])) }

    /// Another process is the service's main process from now on. The corresponding line is `MAINPID=`.
    public static func mainProcess(_ pid: pid_t) -> Self { Self(.lines(["MAINPID=\(pid)"])) }

    /// The start, the reload or the end goes on for at least this time from now, in place of the unit's time limit. It is
    /// a microsecond or longer, and rounded up to microseconds. The corresponding line is `EXTEND_TIMEOUT_USEC=`.
    public static func extendTimeout(_ duration: Duration) -> Self { Self(.extendTimeout(duration)) }

    /// The manager keeps duplicates of descriptors, and passes them to the service's next process: after a crash, too, if
    /// the unit allows it with `FileDescriptorStoreMax=`. ``SystemdDaemon/takeDescriptors()`` takes them there. The
    /// caller's stay open. The corresponding lines are `FDSTORE=1`, `FDNAME=` and `FDPOLL=0`.
    /// - Parameters:
    ///   - descriptors: 1 to 64 open descriptors.
    ///   - name: 1 to 255 ASCII characters without colons and control characters. Several descriptors may have one name.
    ///   - untilHangUp: Whether the manager drops a descriptor that has hung up or has an error.
    public static func storeDescriptors(_ descriptors: [Int32], name: String, untilHangUp: Bool = true) -> Self {
        Self(.storeDescriptors(descriptors, name: name, isPolled: untilHangUp))
    }

    /// The manager keeps a duplicate of one descriptor. See ``storeDescriptors(_:name:untilHangUp:)``.
    public static func storeDescriptor(_ descriptor: Int32, name: String, untilHangUp: Bool = true) -> Self {
        storeDescriptors([descriptor], name: name, untilHangUp: untilHangUp)
    }

    /// The manager closes the descriptors that it keeps under a name. The corresponding lines are `FDSTOREREMOVE=1` and
    /// `FDNAME=`.
    public static func removeDescriptors(name: String) -> Self { Self(.removeDescriptors(name: name)) }
}
