import ServiceLifecycle
import Workers

/// A pool as a service. A graceful shutdown answers the requests that workers have, and ends the workers.
struct PoolService: Service {
    let pool: WorkerPool

    func run() async throws {
        try await cancelWhenGracefulShutdown { try await pool.run() }
    }
}

/// A supervisor as a service. A graceful shutdown stops its children, the last one first.
struct SupervisorService: Service {
    let supervisor: Supervisor

    func run() async throws {
        try await cancelWhenGracefulShutdown { try await supervisor.run() }
    }
}
