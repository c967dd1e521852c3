import Glibc
import Logging
import ServiceLifecycle
import Workers

/// Doubles a number, in its own time.
struct Double: PortRequest {
    typealias Reply = Int
    var number: Int
    /// Gets a message when a worker has the request.
    var begun: MachPort.SendRight?
}

/// A group of two services, a pool and a supervisor of another pool, that SIGTERM ends while workers have requests: all
/// are answered, and no worker is left.
@main struct PoolServiceProgram: WorkerProgram {
    static func work(_ server: RequestServer) {
        server.handle(Double.self) { request in
            try await request.begun?.send(MachPort.Message())
            try await Task.sleep(for: .milliseconds(300))
            return 2 * request.number
        }
    }

    static func run() async throws {
        alarm(60)
        let pool = try WorkerPool(count: 2, name: "pool")
        let supervised = try WorkerPool(count: 1, name: "supervised pool")
        let supervisor = Supervisor { Supervisor.Child(supervised) }
        let group = ServiceGroup(
            configuration: .init(
                services: [
                    .init(service: PoolService(pool: pool)),
                    .init(service: SupervisorService(supervisor: supervisor)),
                ], gracefulShutdownSignals: [.sigterm], logger: Logger(label: "pool-service")))
        async let running: Void = group.run()
        // Until all workers have started.
        for pool in [pool, pool, supervised] { _ = try await pool.request(Double(number: 0), timeout: .seconds(30)) }
        let begun = try MachPort()
        let pids = (pool.workers + supervised.workers).map(\.pid)
        let asking = [pool, pool, supervised].enumerated().map { number, pool in
            Task { try await pool.request(Double(number: number + 1, begun: begun.sendRight), timeout: .seconds(30)) }
        }
        for _ in asking { _ = try await begun.receive(before: .now + .seconds(30)) }
        kill(getpid(), SIGTERM)
        for task in asking { print("answered:", try await task.value) }
        try await running
        print("the group has ended, and \(pids.count { kill($0, 0) == 0 }) of \(pids.count) workers are left")
        do {
            _ = try await pool.request(Double(number: 4))
        } catch {
            print(error)
        }
    }
}
