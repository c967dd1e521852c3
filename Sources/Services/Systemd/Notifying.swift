import RunLoops

extension SystemdDaemon {
    /// Sends notifications to the service manager, in one datagram as far as possible. The manager has them when the call
    /// returns, in their order, but has not acted on them. The thread blocks only while the manager's socket is full. The
    /// corresponding C function is `sd_notify`.
    /// - Parameters:
    ///   - notifications: The notifications. Together their lines have up to 4,096 bytes.
    ///   - timeout: The longest wait for room.
    /// - Returns: False when there is no manager, or the manager wants no notifications: `NOTIFY_SOCKET` is not set.
    /// - Throws: ``SystemdError``: `unreachable`, `busy`, `textTooLong`, an error of a notification's value…
    @available(*, noasync, message: "it may block; `try await` it in an async function, not at the top of main.swift")
    @discardableResult
    public static func notify(
        _ notifications: Notification..., timeout: Duration = .seconds(5)
    ) throws(SystemdError) -> Bool {
        try ManagerConnection.shared.notify(notifications, before: .now + timeout)
    }

    /// Sends notifications to the service manager, in one datagram as far as possible. The manager has them when the call
    /// returns, in their order, but has not acted on them. The task is suspended only while the manager's socket is full.
    /// The corresponding C function is `sd_notify`.
    /// - Parameters:
    ///   - notifications: The notifications. Together their lines have up to 4,096 bytes.
    ///   - timeout: The longest wait for room. A cancelled task sends, and does not wait.
    /// - Returns: False when there is no manager, or the manager wants no notifications: `NOTIFY_SOCKET` is not set.
    /// - Throws: ``SystemdError``: `unreachable`, `busy`, `textTooLong`, an error of a notification's value…
    @discardableResult
    public nonisolated(nonsending) static func notify(
        _ notifications: Notification..., timeout: Duration = .seconds(5)
    ) async throws(SystemdError) -> Bool {
        try await ManagerConnection.shared.notify(notifications, before: .now + timeout)
    }

    /// The environment variables with which a service manager speaks to the process that it starts. A `WorkerProcess`
    /// inherits none of them. Remove them from the environment of a program that is started in another way, because it
    /// would speak for this process.
    public static let variables: Set<String> = ManagerVariables.names
}
