import Ports

// Workers whose ports take typed requests.

extension CheckIn {
    /// Checks in with a server's port. The launcher gets a client of the server from `client(coder:)` of the worker.
    /// Call this method before the server runs.
    ///
    ///     func work() async throws {
    ///         struct Square: PortRequest {
    ///             typealias Reply = Int
    ///             var number: Int
    ///         }
    ///         let server = try RequestServer()
    ///         server.handle(Square.self) { $0.number * $0.number }
    ///         let parent = try await CheckIn.fromEnvironment().complete(with: server)
    ///         // The worker ends with its launcher.
    ///         parent.onInvalidation { server.port.invalidate() }
    ///         defer { withExtendedLifetime(parent) {} }
    ///         try await server.run()
    ///     }
    ///
    /// - Returns: The right to the launcher's port. `RequestClient(right)` sends typed requests to it.
    /// - Throws: `CheckInError`, as with a `MachPort`, and `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func complete(
        with server: RequestServer, before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) async throws -> MachPort.SendRight { try await complete(with: server.port.port, before: deadline) }

    /// Checks in with a server's port, and blocks the thread until the launcher has answered. Call it before the server
    /// runs.
    /// - Throws: `CheckInError`, as with a `MachPort`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    @discardableResult
    public func complete(
        with server: RequestServer, before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) throws(CheckInError) -> MachPort.SendRight { try complete(with: server.port.port, before: deadline) }
}

extension WorkerProcess {
    /// A client of the worker's server.
    /// - Throws: `CheckInError` before the check-in, and when it has failed.
    public func client(coder: any MessageCoder = CBORCoder()) throws(CheckInError) -> RequestClient {
        RequestClient(try port, coder: coder)
    }
}

extension WorkerThread {
    /// A client of the worker's server.
    /// - Throws: `CheckInError` before the check-in, and when it has failed.
    public func client(coder: any MessageCoder = CBORCoder()) throws(CheckInError) -> RequestClient {
        RequestClient(try port, coder: coder)
    }
}
