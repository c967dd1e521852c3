import CRunLoopShims
import Glibc
import RunLoops
import Synchronization
import TypedPorts

// The messages between a pool and its workers, and the part of the worker.

/// Asks whether the worker answers at all.
struct PoolPing: PortRequest {
    typealias Reply = EmptyReply
    static let requestName = "swift-ports.pool.ping"
    static let lane: RequestLane? = RequestLane("ping", atMost: 1)
}

/// Is answered when the worker has a place for another request.
struct PoolTurn: PortRequest {
    typealias Reply = EmptyReply
    static let requestName = "swift-ports.pool.turn"
}

/// This process, as a worker of a pool.
enum PoolMember {
    /// The number of requests that the pool sends at a time.
    static let variable = "PORTS_WORKER_REQUESTS"

    static var isMember: Bool { getenv(variable) != nil }

    /// Whether this program is a ``WorkerProgram``.
    static var isProgram: Bool { hasBegun.load(ordering: .relaxed) }
    private static let hasBegun = Atomic(false)

    /// The program's main function was called.
    static func noteProgram() { hasBegun.store(true, ordering: .relaxed) }

    /// Why a program that is no ``WorkerProgram`` has no pool of itself.
    static let noProgram =
        "this program is no WorkerProgram, and would run again and again as its own worker: make the type with @main one, or "
        + "name another program for the pool"

    /// Answers requests until the pool ends this process, or has ended.
    static func work(_ setUp: (RequestServer) async throws -> Void) async throws {
        WorkerTitle.show()
        CrashReport.begin()
        // Soon: until the sequence is made, SIGTERM ends the process at once.
        let signals = try SignalSequence([SIGTERM])
        // A crash would lose complete lines, where the output is a file or a pipe.
        crl_buffer_output_by_lines()
        let limit = getenv(variable).flatMap { Int(String(cString: $0)) } ?? 1
        // A program that this one starts is no worker.
        unsetenv(variable)
        let server = try RequestServer()
        server.handle(PoolPing.self) { _ in EmptyReply() }
        server.handle(PoolTurn.self) { _ in EmptyReply() }
        try await setUp(server)
        // Without deadlines: a pool that is stopped answers when it goes on, and each pool ends a worker that starts too slowly.
        let pool = try await CheckIn.fromEnvironment(before: nil).complete(with: server, before: nil)
        pool.onInvalidation {
            // The kernel kills this process with the pool's, unless a program with other privileges has run in between.
            if getpgrp() == getpid() { kill(0, SIGKILL) }
            _exit(1)
        }
        defer { withExtendedLifetime((signals, pool)) {} }
        async let running: Void = server.run(atMost: limit)
        _ = try await signals.wait()
        // The pool kills a worker that takes too long.
        await server.finish()
        try await running
    }
}
