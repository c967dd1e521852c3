import Dispatch
import Glibc
import Workers

/// Requests through a pool, beside typed requests to one of its workers; and new workers, beside a start without a pool.
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

    private static let program = WorkerProcess.Configuration("/proc/self/exe", [Child.argument, role])

    private let pool: WorkerPool
    private let spares: Int

    init(spares: Int = 0) throws {
        self.spares = spares
        var options = WorkerPool.Options()
        options.spares = spares
        options.intensity.most = .max
        pool = try WorkerPool(Self.program, count: 1, options: options)
        Task { [pool] in try await pool.run() }
    }

    private static func time(_ body: @escaping @Sendable () async throws -> Void) -> Duration {
        let isOver = DispatchSemaphore(value: 0)
        let begin = ContinuousClock.now
        Task.detached {
            do { try await body() } catch { fail(error) }
            isOver.signal()
        }
        isOver.wait()
        return begin.duration(to: .now)
    }

    // MARK: Requests

    private static let count = 2000

    func pooled() -> Double {
        Self.time { [pool] in
            for number in 0..<Self.count { _ = try await pool.request(Echo(number: number)) }
        } / .microseconds(Self.count)
    }

    func direct() -> Double {
        Self.time { [pool] in
            try await pool.withWorker { worker in
                for number in 0..<Self.count { _ = try await worker.request(Echo(number: number)) }
            }
        } / .microseconds(Self.count)
    }

    // MARK: Replacements

    private static let crashes = 10

    /// The time from the kill of the worker to the reply to the next request. It is sent when the pool has noticed the end.
    func replacement() -> Double {
        var sum = Duration.zero
        for number in 0..<Self.crashes {
            while pool.workers.count(where: \.isSpare) < spares { usleep(1000) }
            // The worker has worked, so its successor starts at once.
            _ = Self.time { [pool] in _ = try await pool.request(Echo(number: number)) }
            guard let former = pool.workers.first(where: { !$0.isSpare })?.pid else { continue }
            sum += Self.time { [pool] in
                kill(former, SIGKILL)
                while pool.workers.contains(where: { $0.pid == former }) { usleep(50) }
                _ = try await pool.request(Echo(number: number))
            }
        }
        return sum / .milliseconds(Self.crashes)
    }

    /// The time from the start of such a process to its first reply, and the milliseconds that a pool may add.
    static func start(adding milliseconds: Double = 0) -> Double {
        var sum = Duration.zero
        for number in 0..<crashes {
            sum += time {
                var program = program
                program.processGroup = .own
                program.endsWithLauncher = true
                program.environment = .inherit.updating(["PORTS_WORKER_REQUESTS": "1"])
                let worker = try await WorkerProcess.launch(program)
                _ = try await worker.client().request(Echo(number: number))
                worker.send(signal: SIGKILL)
            }
        }
        return sum / .milliseconds(crashes) + milliseconds
    }

    static var rows: [Row] {
        let (peer, spared) = (Shared { try PoolPeer() }, Shared { try PoolPeer(spares: 1) })
        return [
            Row(part: "two processes", work: "request through a pool") {
                let peer = try peer.value
                return Contest(
                    .microseconds, ours: { peer.pooled() },
                    Contestant("the same without the pool", .atMost(1.25)) { peer.direct() })
            },
            Row(part: "two processes", work: "kill of a pool's worker, to the next reply") {
                let (peer, spared) = (try peer.value, try spared.value)
                return Contest(
                    .milliseconds, ours: { peer.replacement() },
                    Contestant("a start without a pool, and 5 ms", .atMost(1)) { start(adding: 5) },
                    Contestant("with a spare worker") { spared.replacement() })
            },
        ]
    }
}
