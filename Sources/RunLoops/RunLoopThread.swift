import CRunLoopShims
import Glibc
import Synchronization

/// A thread that runs a loop, with work or without, until it is told to stop.
///
///     let thread = try RunLoopThread(name: "worker")
///     thread.loop.perform { print("on the worker") }
///     thread.stop()
///
/// It stops when its owner lets go of it, too.
public final class RunLoopThread: Sendable {
    /// The thread's loop. Items added to it from any thread are served there.
    public let loop: ThreadRunLoop

    private let ended = Gate()
    private let thread: pthread_t
    private let isJoined = Mutex(false)

    /// Starts a thread, and returns when its loop is there.
    ///
    /// - Parameters:
    ///   - name: What the system's tools show; the kernel keeps 15 bytes of it.
    ///   - stackSize: The stack's size in bytes; nil for the system's default.
    ///   - body: Called on the thread before its loop runs: a place to add items.
    /// - Throws: ``RunLoopError/threadNotStarted(errno:)``, or what is said when no descriptor is left.
    public init(
        name: String = "run loop", stackSize: Int? = nil, body: (@Sendable (ThreadRunLoop) -> Void)? = nil
    ) throws(RunLoopError) {
        let start = Start(name: name, ended: ended, body: body)
        thread = try Self.startThread(start, stackSize: stackSize)
        _ = start.ready.wait(until: .distantFuture)
        switch start.outcome.withLock({ $0 }) {
        case .success(let loop):
            self.loop = loop
        case .failure(let error):
            pthread_join(thread, nil)
            throw error
        }
    }

    deinit {
        stop()
        if !isJoined.withLock({ $0 }) { pthread_detach(thread) }
    }

    /// Ends all runs of the loop, and then the thread. Any thread may call it, its own too.
    public func stop() { loop.stopForGood() }

    /// Waits until the thread has ended.
    ///
    /// - Parameter deadline: How long to wait.
    /// - Returns: False when the deadline came first, or the thread waits for itself.
    @discardableResult
    public func join(before deadline: MonotonicInstant = .distantFuture) -> Bool {
        guard !loop.isCurrent, ended.wait(until: deadline) else { return false }
        isJoined.withLock { isJoined in
            // The gate opens at the very end of the thread's body, so this is short.
            if !isJoined { pthread_join(thread, nil) }
            isJoined = true
        }
        return true
    }

    /// What the new thread is given.
    private final class Start: Sendable {
        let name: String
        let ready = Gate()
        let ended: Gate
        let body: (@Sendable (ThreadRunLoop) -> Void)?
        let outcome = Mutex(Result<ThreadRunLoop, RunLoopError>.failure(.threadNotStarted(errno: EAGAIN)))

        init(name: String, ended: Gate, body: (@Sendable (ThreadRunLoop) -> Void)?) {
            self.name = name
            self.ended = ended
            self.body = body
        }

        func main() {
            defer { ended.open() }
            crl_thread_set_name(name)
            let current = ThreadRunLoop.current
            // Keeps the mode from being empty.
            current.add(ThreadRunLoop.Source0 {})
            do {
                try current.prepare()
            } catch {
                outcome.withLock { $0 = .failure(error) }
                return ready.open()
            }
            outcome.withLock { $0 = .success(current) }
            ready.open()
            body?(current)
            while !current.isStoppedForGood {
                // Cannot throw: what a run needs was made above.
                _ = try? current.runInMode(.default, seconds: .infinity)
            }
        }
    }

    private static func startThread(_ start: Start, stackSize: Int?) throws(RunLoopError) -> pthread_t {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        if let stackSize { pthread_attr_setstacksize(&attributes, max(stackSize, Int(PTHREAD_STACK_MIN))) }
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(start)
        let error = pthread_create(
            &thread, &attributes,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().main()
                return nil
            }, argument.toOpaque())
        guard error == 0 else {
            argument.release()
            throw .threadNotStarted(errno: error)
        }
        return thread
    }
}
