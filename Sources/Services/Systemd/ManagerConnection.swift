import CRunLoopShims
import RunLoopLocks
import RunLoops

/// This process's relation to its service manager. The public calls use the one of the process's environment.
final class ManagerConnection: Sendable {
    static let shared = ManagerConnection(ManagerEnvironment())

    let environment: ManagerEnvironment
    /// Whether somebody has taken the descriptors that the manager has passed.
    let areDescriptorsTaken = Lock(false)
    /// The last status that the program has given, which a report of trouble replaces for a while.
    private let status = Lock("")

    init(_ environment: ManagerEnvironment) {
        crl_prepare_fork()
        self.environment = environment
    }

    /// The manager's socket; nil when there is none. A forked child has none: it would speak for its parent.
    var address: String? { crl_is_forked() ? nil : environment["NOTIFY_SOCKET"] }

    /// Sends notifications, and blocks the thread while the manager's socket is full.
    func notify(
        _ notifications: [SystemdDaemon.Notification], before deadline: MonotonicInstant
    ) throws(SystemdError) -> Bool {
        let isSent = try send(notifications, before: deadline)
        if isSent { note(notifications) }
        return isSent
    }

    private func send(
        _ notifications: [SystemdDaemon.Notification], before deadline: MonotonicInstant
    ) throws(SystemdError) -> Bool {
        guard let address else { return false }
        let datagrams = try NotificationDatagram.all(notifications)
        let socket = try NotifySocket(address)
        for datagram in datagrams {
            while try !socket.send(datagram) {
                guard socket.waitForRoom(until: deadline) else { throw .busy(address: address) }
            }
        }
        return true
    }

    /// The time after which a task tries again to send. No event says to a task that another process's socket has room.
    private static let retryTime = Duration.milliseconds(10)

    /// Sends notifications, and suspends the task while the manager's socket is full.
    nonisolated(nonsending) func notify(
        _ notifications: [SystemdDaemon.Notification], before deadline: MonotonicInstant
    ) async throws(SystemdError) -> Bool {
        guard let address else { return false }
        let datagrams = try NotificationDatagram.all(notifications)
        let socket = try NotifySocket(address)
        for datagram in datagrams {
            while try !socket.send(datagram) {
                // A cancelled task does not wait.
                let hasWaited = (try? await Task.sleep(for: Self.retryTime)) != nil
                guard hasWaited, !deadline.hasPassed else { throw .busy(address: address) }
            }
        }
        note(notifications)
        return true
    }

    /// Sends a sign of life without waiting. When it fails, the next one follows soon.
    func sendAlive() { _ = try? notify([.alive], before: .distantPast) }

    /// The longest part of a trouble's text that is shown. An error may describe itself at length.
    private static let mostCharacters = 500

    /// Shows trouble in the place of the status; nil shows the program's status again. Does not wait.
    func report(_ trouble: String?) {
        let text = trouble.map { String($0.prefix(Self.mostCharacters)) } ?? status.withLock { $0 }
        _ = try? send([.status(text)], before: .distantPast)
    }

    private func note(_ notifications: [SystemdDaemon.Notification]) {
        for case .status(let text) in notifications.map(\.kind) { status.withLock { $0 = text } }
    }
}
