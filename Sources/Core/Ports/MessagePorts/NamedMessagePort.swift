import RunLoopLocks
import RunLoops

/// Sends requests to the port that has a name. After a restart of the owner, it finds the new port. While no port has
/// the name, requests wait for one.
///
///     let store = NamedMessagePort("com.example.store")
///     print(try await store.request(MachPort.Message(id: 1)))
///
/// A request that a server may have handled is sent again only if the caller allows that.
public final class NamedMessagePort: Sendable, CustomStringConvertible {
    /// The name.
    public let name: String
    /// Where the name is looked up.
    public let nameServer: PortNameServer

    private let current = Lock<RemoteMessagePort?>(nil)

    /// Names a port. The first request looks the name up.
    public init(_ name: String, nameServer: PortNameServer = .shared) {
        self.name = name
        self.nameServer = nameServer
    }

    /// The name.
    public var description: String { "“\(name)”" }

    /// The port that was last found by the name. After its end, and at the first use, suspends the task until there is
    /// a port.
    /// - Throws: ``PortError``: `nameNotFound` at the deadline, `runLoop(.outOfFileSources)`, `cannotConnect`,
    ///   `incompatibleVersion`, or an error of the directory. `CancellationError`.
    public nonisolated(nonsending) func port(
        before deadline: ContinuousClock.Instant? = nil
    ) async throws -> RemoteMessagePort {
        if let known { return known }
        return keep(try await nameServer.waitForPort(forName: name, before: deadline))
    }

    /// The port that was last found by the name. After its end, and at the first use, blocks until there is a port.
    /// - Throws: ``PortError``: `nameNotFound` at the deadline, `runLoop(.outOfFileSources)`, `cannotConnect`,
    ///   `incompatibleVersion`, or an error of the directory.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func port(before deadline: ContinuousClock.Instant? = nil) throws(PortError) -> RemoteMessagePort {
        if let known { return known }
        return keep(try nameServer.waitForPort(forName: name, before: deadline))
    }

    /// Sends a request to the port that has the name, and again to the next port when certainly nobody has handled it.
    /// A live owner that does not answer may take a second more than the timeout.
    /// - Parameters:
    ///   - message: The request.
    ///   - timeout: The end of the wait for a port, for room and for the reply.
    ///   - mayRepeat: Whether to send the request again also when its server has ended and may have handled it.
    /// - Throws: ``PortError``, as ``RemoteMessagePort/request(_:timeout:)``, and `nameNotFound`. `CancellationError`.
    public nonisolated(nonsending) func request(
        _ message: MachPort.Message, timeout: Duration = .seconds(10), mayRepeat: Bool = false
    ) async throws -> MachPort.Message {
        let deadline = ContinuousClock.now + timeout
        var attempts = RequestAttempts(mayRepeat: mayRepeat)
        while true {
            let remote = try await port(before: deadline)
            var isSent = false
            do {
                return try await remote.request(message, before: MonotonicInstant(deadline), &isSent)
            } catch let error as PortError {
                let pause = try attempts.pause(
                    after: error, isSent: isSent, from: remote.sendRight.id, before: deadline)
                forget(remote)
                if pause > .zero { try await Task.sleep(for: pause) }
            }
        }
    }

    /// Sends a request to the port that has the name, and again to the next port when certainly nobody has handled it.
    /// A live owner that does not answer may take a second more than the timeout.
    /// - Parameters:
    ///   - message: The request.
    ///   - timeout: The end of the wait for a port, for room and for the reply.
    ///   - mayRepeat: Whether to send the request again also when its server has ended and may have handled it.
    ///   - replyMode: The mode in which the calling thread's loop runs during the wait for the reply, as in
    ///     ``RemoteMessagePort/request(_:timeout:replyMode:)``. It does not run during the wait for a port.
    /// - Throws: ``PortError``, as ``RemoteMessagePort/request(_:timeout:replyMode:)``, and `nameNotFound`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func request(
        _ message: MachPort.Message, timeout: Duration = .seconds(10), mayRepeat: Bool = false,
        replyMode: ThreadRunLoop.Mode? = nil
    ) throws(PortError) -> MachPort.Message {
        let deadline = ContinuousClock.now + timeout
        var attempts = RequestAttempts(mayRepeat: mayRepeat)
        while true {
            let remote = try port(before: deadline)
            var isSent = false
            do throws(PortError) {
                let limit = MonotonicInstant(deadline)
                return try remote.request(message, before: limit, replyMode, &isSent) { limit }
            } catch {
                let pause = try attempts.pause(
                    after: error, isSent: isSent, from: remote.sendRight.id, before: deadline)
                forget(remote)
                if pause > .zero { _ = Latch().wait(until: .now + pause) }
            }
        }
    }

    /// Sends data as a request to the port that has the name, suspending the task, and returns the reply's data; nil
    /// when the server replied without data. Attempts and errors are those of ``request(_:timeout:mayRepeat:)``.
    public nonisolated(nonsending) func request(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10), mayRepeat: Bool = false
    ) async throws -> [UInt8]? {
        try await request(MachPort.Message(id: id, data: data), timeout: timeout, mayRepeat: mayRepeat).data
    }

    /// Sends data as a request to the port that has the name, blocking the thread, and returns the reply's data; nil
    /// when the server replied without data. Attempts and errors are those of
    /// ``request(_:timeout:mayRepeat:replyMode:)``.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func request(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10), mayRepeat: Bool = false,
        replyMode: ThreadRunLoop.Mode? = nil
    ) throws(PortError) -> [UInt8]? {
        try request(
            MachPort.Message(id: id, data: data), timeout: timeout, mayRepeat: mayRepeat, replyMode: replyMode
        ).data
    }

    private var known: RemoteMessagePort? { current.withLock { $0 }.flatMap { $0.isValid ? $0 : nil } }

    private func keep(_ right: MachPort.SendRight) -> RemoteMessagePort {
        let found = RemoteMessagePort(right)
        current.withLock { $0 = found }
        return found
    }

    private func forget(_ remote: RemoteMessagePort) {
        current.withLock { if $0?.sendRight == remote.sendRight { $0 = nil } }
    }
}
