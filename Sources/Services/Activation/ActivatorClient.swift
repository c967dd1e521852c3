import TypedPorts

/// Asks the ``Activator`` of a registry directory about its services, and changes them. Any task may call all methods.
public struct ActivatorClient: Sendable {
    private let client: RequestClient

    /// Makes a client of the activator that has the name in the directory of the name server.
    public init(nameServer: PortNameServer = .shared) {
        client = RequestClient(Activator.name, nameServer: nameServer)
    }

    /// All services, by name.
    /// - Throws: `PortError`: `nameNotFound` without an activator. `CancellationError`.
    public nonisolated(nonsending) func services() async throws -> [ServiceStatus] {
        try await client.request(ListServices())
    }

    /// Starts a service unless it runs, and returns when it serves.
    /// - Throws: ``ServiceFailure`` with the reason; `PortError`; `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func start(
        _ name: String, timeout: Duration = .seconds(30)
    ) async throws -> ServiceStatus {
        try await change(name, .start, timeout)
    }

    /// Asks a service to end, and returns when it has. The next message to it starts it again.
    /// - Throws: ``ServiceFailure`` with the reason; `PortError`; `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func stop(
        _ name: String, timeout: Duration = .seconds(30)
    ) async throws -> ServiceStatus {
        try await change(name, .stop, timeout)
    }

    /// Stops a service, if it runs, and starts it.
    /// - Throws: ``ServiceFailure`` with the reason; `PortError`; `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func restart(
        _ name: String, timeout: Duration = .seconds(30)
    ) async throws -> ServiceStatus {
        try await change(name, .restart, timeout)
    }

    /// Reads the folder of the service files again: new services wait, and those without a file are stopped.
    /// - Returns: All services.
    /// - Throws: ``ServiceFailure`` with the reason; `PortError`; `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func reload() async throws -> [ServiceStatus] {
        try await client.request(ReloadServices())
    }

    private nonisolated(nonsending) func change(
        _ name: String, _ change: ChangeService.Change, _ timeout: Duration
    ) async throws -> ServiceStatus {
        try await client.request(ChangeService(name: name, change: change), timeout: timeout)
    }
}
