import RunLoopLocks
import TypedPorts

/// Holds the ports of services that do not run, and starts each when the first message comes for it.
///
///     let activator = try Activator()
///     try await activator.run()
///
/// The command `portctl activate` is a process with one activator. Each file in the folder of the services stands for a
/// service: <doc:OnDemand> has its keys. A service has its port from the activator, which gets it back when the service ends,
/// whatever has ended it. So no message is lost between one process of a service and the next. Any thread may call all
/// methods.
public final class Activator: Sendable {
    /// The name of the activator's own port.
    public static let name = "swift-ports.activator"

    private struct State {
        var keepers: [String: (keeper: ServiceKeeper, task: Task<Void, Never>)] = [:]
        var isOver = false
    }

    private let folder: ServiceFolder
    private let logs: String?
    private let nameServer: PortNameServer
    private let server: RequestServer
    private let state = Lock(State())

    /// Takes the activator's name.
    /// - Parameters:
    ///   - folder: The folder of the service files; nil for `$PORTS_SERVICES`, else `swift-ports/services` in
    ///     `$XDG_CONFIG_HOME`, or in `~/.config`.
    ///   - logs: The folder for the services' output; nil for `swift-ports/log` in `$XDG_STATE_HOME`, or in
    ///     `~/.local/state`.
    ///   - nameServer: Where the names of the services are.
    /// - Throws: `PortError`: `nameInUse` when the directory has an activator, or an error of the directory.
    public init(
        folder: String? = nil, logs: String? = nil, nameServer: PortNameServer = .shared
    ) throws(PortError) {
        self.folder = folder.map { ServiceFolder(path: $0) } ?? .standard
        self.logs = logs
        self.nameServer = nameServer
        server = try RequestServer(name: Self.name, nameServer: nameServer)
        server.handle(ListServices.self) { [weak self] _ in self?.statuses ?? [] }
        server.handle(ChangeService.self) { [weak self] change in
            guard let self else { throw ServiceFailure("the activator has ended") }
            return try await status(after: change)
        }
        server.handle(ReloadServices.self) { [weak self] _ in
            guard let self else { throw ServiceFailure("the activator has ended") }
            do { try reload() } catch { throw ServiceFailure("\(error)") }
            return statuses
        }
    }

    /// Keeps the services until ``stop()`` is called, or the task is cancelled. Then the services are asked to end, and are
    /// killed when they take too long. An activator runs once.
    /// - Parameter whenReady: Called when the names of all services are there, but for those that others have.
    /// - Throws: ``ServiceFileError`` when the folder cannot be used.
    public func run(whenReady: @escaping @Sendable () async -> Void = {}) async throws {
        try keepServices()
        let endReport = nameServer.report(services: { self.counters })
        defer { endReport() }
        await withTaskCancellationHandler {
            async let ready: Void = tell(whenReady)
            try? await server.run()
            await ready
        } onCancel: {
            server.port.invalidate()
        }
        let tasks = state.withLock { state in
            state.isOver = true
            return exchange(&state.keepers, with: [:]).values.map(\.task)
        }
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
    }

    private func tell(_ whenReady: @Sendable () async -> Void) async {
        for keeper in state.withLock({ $0.keepers.values.map(\.keeper) }) { _ = await keeper.hasBegun.wait() }
        await whenReady()
    }

    /// Checks that the activator serves, as `RequestServer.ping(timeout:)` does. For a watchdog.
    /// - Throws: `PortError`; `CancellationError`.
    public nonisolated(nonsending) func ping(timeout: Duration = .seconds(10)) async throws {
        try await server.ping(timeout: timeout)
    }

    /// The number of services.
    public var serviceCount: Int { state.withLock { $0.keepers.count } }

    /// Ends the activator: ``run(whenReady:)`` returns when its services have ended.
    public func stop() { server.port.invalidate() }

    /// Reads the folder again, and checks the files. The next message starts a service again that has failed.
    /// - Throws: ``ServiceFileError`` when the folder cannot be used. Also for a file with an error, one of them when there are
    ///   several: everything else was read all the same.
    public func reload() throws(ServiceFileError) {
        try keepServices()
        let keepers = state.withLock { $0.keepers.values.map(\.keeper) }
        let errors = keepers.sorted { $0.name < $1.name }.compactMap { $0.readAgain() }
        if let error = errors.first { throw error }
    }

    /// Keeps the services of the folder, and no others.
    private func keepServices() throws(ServiceFileError) {
        let names = Set(try folder.services)
        let gone = state.withLock { state in
            if state.isOver { return [Task<Void, Never>]() }
            let gone = state.keepers.filter { !names.contains($0.key) }
            for name in gone.keys { state.keepers[name] = nil }
            for name in names where state.keepers[name] == nil {
                let keeper = ServiceKeeper(name, folder, logs: logs, nameServer)
                state.keepers[name] = (keeper, Task { await keeper.run() })
            }
            return gone.values.map(\.task)
        }
        for task in gone { task.cancel() }
    }

    private var counters: [String: PortCounters.Service] {
        state.withLock { $0.keepers.mapValues(\.keeper) }.mapValues { keeper in
            PortCounters.Service(state: keeper.phase.word, starts: keeper.startCount)
        }
    }

    private var statuses: [ServiceStatus] {
        state.withLock { $0.keepers.values.map(\.keeper) }.map(\.status).sorted { $0.name < $1.name }
    }

    private func status(after change: ChangeService) async throws -> ServiceStatus {
        guard let keeper = state.withLock({ $0.keepers[change.name]?.keeper }) else {
            throw ServiceFailure(
                "there is no service “\(change.name.printable)”: \(folder.path) has the files, and “portctl reload” reads them"
            )
        }
        if change.change != .start {
            let phase = try await keeper.stop()
            if case .elsewhere(let pid) = phase {
                let process = pid.map { "process \($0)" } ?? "another process"
                throw ServiceFailure("\(process) has the name, and this activator has not started it")
            }
        }
        if change.change != .stop {
            let phase = try await keeper.start()
            if let reason = phase.reason { throw ServiceFailure("the service “\(change.name)” has failed: \(reason)") }
        }
        return keeper.status
    }
}
