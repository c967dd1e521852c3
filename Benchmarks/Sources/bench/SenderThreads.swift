import Dispatch
import RunLoops
import Synchronization

/// Threads that send side by side. They live through all rounds, so that none pays for starting them.
final class SenderThreads: Sendable {
    private let threads: [RunLoopThread]
    private let failure = Mutex<(any Error)?>(nil)

    var count: Int { threads.count }

    init(_ count: Int, _ placement: Placement) throws {
        threads = try (0..<count).map {
            try RunLoopThread(name: "sender \($0)") { _ in placement.bindSender() }
        }
    }

    /// Runs the work once on each thread, and returns when all have done it.
    func run(_ work: @escaping @Sendable (_ thread: Int) throws -> Void) throws {
        let done = DispatchGroup()
        for (index, thread) in threads.enumerated() {
            done.enter()
            try thread.loop.perform { [self] in
                do { try work(index) } catch { failure.withLock { $0 = error } }
                done.leave()
            }
        }
        done.wait()
        if let error = failure.withLock({ $0 }) { throw error }
    }
}
