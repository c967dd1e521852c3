import Dispatch
import Workers

/// Requests through a pool, beside typed requests to one of its workers.
final class PoolPeer: Sendable {
    static let role = "pool"

    private struct Echo: PortRequest {
        typealias Reply = Int
        var number: Int
    }

    private enum Program: WorkerProgram {
        static func work(_ server: RequestServer) { server.handle(Echo.self) { $0.number } }
        static func run() {}
    }

    /// The worker's side; does not return.
    static func serve() -> Never {
        Task { await Program.main() }
        dispatchMain()
    }

    private let pool: WorkerPool

    init() throws {
        pool = try WorkerPool(.init("/proc/self/exe", [Child.argument, Self.role]), count: 1)
        Task { [pool] in try await pool.run() }
    }

    private static let count = 2000

    private func microseconds(_ body: @escaping @Sendable () async throws -> Void) -> Double {
        let isOver = DispatchSemaphore(value: 0)
        let begin = ContinuousClock.now
        Task.detached {
            do { try await body() } catch { fail(error) }
            isOver.signal()
        }
        isOver.wait()
        return begin.duration(to: .now) / .microseconds(Self.count)
    }

    func pooled() -> Double {
        microseconds { [pool] in
            for number in 0..<Self.count { _ = try await pool.request(Echo(number: number)) }
        }
    }

    func direct() -> Double {
        microseconds { [pool] in
            try await pool.withWorker { worker in
                for number in 0..<Self.count { _ = try await worker.request(Echo(number: number)) }
            }
        }
    }

    static var rows: [Row] {
        let peer = Shared { try PoolPeer() }
        return [
            Row(part: "two processes", work: "request through a pool") {
                let peer = try peer.value
                return Contest(
                    .microseconds, ours: { peer.pooled() },
                    Contestant("the same without the pool", .atMost(1.25)) { peer.direct() })
            }
        ]
    }
}
