import Ports
import RunLoops

/// How a worker has ended, or why its pool has ended it.
///
/// Later versions may add cases, so a `switch` over all cases needs an `@unknown default`.
@nonexhaustive
public enum WorkerEnd: Error, Sendable, Hashable, CustomStringConvertible {
    /// It has ended by itself, or somebody else has ended it.
    case ended(ThreadRunLoop.ExitStatus)
    /// The pool has killed it, because it was still busy with a request this long after the request had timed out or was cancelled.
    case hung(Duration)
    /// The pool has killed it, because it had nothing to do, and has not answered for this long.
    case silent(Duration)
    /// The pool has killed it, because it had more memory than this many bytes.
    case memoryLimit(Int)
    /// The pool has killed it, because it took no more requests, and was still there after this time.
    case lingering(Duration)
    /// The pool has ended it after this number of requests.
    case requestLimit(Int)
    /// It could not be started, or has not checked in.
    case notStarted(String)
    /// The pool was stopped.
    case stopped

    /// A phrase to follow the name of a worker.
    public var description: String {
        switch self {
        case .ended(let status): "\(status)"
        case .hung(let time): "was killed: it was still busy \(time) after its request had timed out or was cancelled"
        case .silent(let time): "was killed: it had nothing to do, and did not answer for \(time)"
        case .memoryLimit(let bytes): "was killed: memory limit \(Self.text(ofBytes: bytes))"
        case .lingering(let time): "was killed: it took no more requests, and was still there after \(time)"
        case .requestLimit(let count): "was ended: limit of \(count) requests"
        case .notStarted(let reason): "did not start: \(reason)"
        case .stopped: "was ended with its pool"
        }
    }

    /// The kind of the end, as a word for counters.
    var cause: String {
        switch self {
        case .ended(.exited(0)): "exited"
        case .ended(.exited), .ended(.unknown): "failed"
        case .ended(.signaled): "signaled"
        case .hung: "hung"
        case .silent: "silent"
        case .memoryLimit: "memory_limit"
        case .lingering: "lingering"
        case .requestLimit: "request_limit"
        case .notStarted: "not_started"
        case .stopped: "stopped"
        }
    }

    private static func text(ofBytes count: Int) -> String {
        count % (1 << 20) == 0 ? "\(count >> 20) MiB" : "\(count) bytes"
    }

    /// Whether the pool has ended the worker as it was told to, and not because something is wrong.
    var isPlanned: Bool {
        switch self {
        case .requestLimit, .stopped, .ended(.exited(0)): true
        default: false
        }
    }
}

/// The reason why a pool has not answered a request. The error of the handler itself is thrown as `RequestClient` throws it.
///
/// Later versions may add cases, so a `switch` over all cases needs an `@unknown default`.
@nonexhaustive
public enum WorkerPoolError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The worker has ended while it had the request.
    case workerEnded(worker: String, WorkerEnd)
    /// The request had no answer within its timeout. It may be that no worker was free.
    case timedOut(pool: String, after: Duration, wasHandled: Bool)
    /// No worker has started within the request's timeout. The reason is the last one's.
    case noWorker(pool: String, after: Duration, reason: String)
    /// As many requests wait for a worker as may.
    case full(pool: String, limit: Int)
    /// The pool is stopping, or was stopped.
    case stopped(pool: String)
    /// The pool runs already.
    case isRunning(pool: String)
    /// The workers have ended too often. These are the reasons of late.
    case failed(pool: String, reasons: [String])

    /// A sentence that names the pool or the worker, and the cause.
    public var description: String {
        switch self {
        case .workerEnded(let worker, let end): "\(worker) \(end)"
        case .timedOut(let pool, let time, true): "a worker of \(pool) has not answered for \(time)"
        case .timedOut(let pool, let time, false):
            "no worker of \(pool) was free for \(time): give it more workers, or ask with a longer timeout"
        case .noWorker(let pool, let time, let reason): "no worker of \(pool) has started for \(time): \(reason)"
        case .full(let pool, let limit): "\(pool) is full: \(limit) requests wait for its workers; ask later"
        case .stopped(let pool): "\(pool) is stopped"
        case .isRunning(let pool): "\(pool) runs already"
        case .failed(let pool, let reasons):
            "the workers of \(pool) have ended too often: \(reasons.joined(separator: "; "))"
        }
    }
}
