import CRunLoopShims
import Glibc
import Synchronization

/// A thread that runs a loop, with work or without, until it is told to stop.
///
///     let thread = try RunLoopThread(name: "worker")
///     thread.loop.perform { print("on the worker") }
///     let answer = try thread.run { 6 * 7 }
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
    ///   - niceness: How far the thread gives way to others, from −20 (least) to 19; nil for its maker's.
    ///   - stackSize: The stack's size in bytes, at least ``minimumStackSize``; nil for the system's default.
    ///   - body: Called on the thread before its loop runs: a place to add items.
    /// - Throws: ``RunLoopError/nicenessRefused(_:)``, as it is to most when they ask for less than they have;
    ///   ``RunLoopError/invalidStackSize(_:minimum:)``, ``RunLoopError/outOfThreads(limit:)``,
    ///   ``RunLoopError/forked``, or what is said when no descriptor is left.
    public init(
        name: String = "run loop", niceness: Int? = nil, stackSize: Int? = nil,
        body: (@Sendable (ThreadRunLoop) -> Void)? = nil
    ) throws(RunLoopError) {
        if crl_is_forked() { throw .forked }
        let start = Start(name: name, niceness: niceness, ended: ended, body: body)
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

    /// The smallest stack that a thread can be given, in bytes. It leaves some ten kilobytes to what the thread calls.
    public static let minimumStackSize = max(64 << 10, Int(PTHREAD_STACK_MIN))

    // MARK: Work

    /// Calls a closure on the thread, in its loop's common modes, and waits for what it returns; at once when called on
    /// the thread itself. Any thread may call it. To have a closure called without waiting, ask the ``loop``.
    ///
    /// - Parameter body: Called on the thread.
    /// - Returns: What the closure returns.
    /// - Throws: What the closure throws; ``RunLoopError/loopEnded`` when the thread was stopped before the call, or
    ///   ends before the closure was called.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    @discardableResult
    public func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
        if loop.isCurrent { return try body() }
        guard !loop.isStoppedForGood else { throw RunLoopError.loopEnded }
        return try LoopCall(body).wait(for: loop, inModes: [.common]).get()
    }

    /// Calls a closure on the thread, in its loop's common modes, and suspends until it has returned.
    ///
    /// - Parameter body: Called on the thread, not at all when the task is cancelled before.
    /// - Returns: What the closure returns.
    /// - Throws: What the closure throws; ``RunLoopError/loopEnded`` when the thread was stopped before the call, or
    ///   ends before the closure was called; `CancellationError` when the task was cancelled before.
    @discardableResult
    public func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        guard !loop.isStoppedForGood else { throw RunLoopError.loopEnded }
        return try await loop.execute(body)
    }

    // MARK: The end

    /// Ends all runs of the loop, and then the thread. Any thread may call it, its own too.
    ///
    /// The thread ends when what it calls at this moment has returned. What it has not called by then is not called;
    /// ``finish()`` calls what waits.
    public func stop() { loop.stopForGood() }

    /// Calls the blocks and requests that wait, and then stops. Any thread may call it, its own too.
    ///
    /// What was given to the loop before, for the default mode or the common ones, is called: with
    /// ``ThreadRunLoop/perform(inModes:_:)``, ``ThreadRunLoop/perform(order:inModes:owner:_:)`` or `run`.
    /// What is to come at a time, or waits for another mode, is not called, and what is given later may not be.
    /// Keep the thread until ``join(before:)`` has returned: to let go of it stops it at once.
    public func finish() {
        // A request is called after the blocks that wait, and this one after all other requests.
        loop.perform(order: .max) { [loop] in loop.stopForGood() }
    }

    /// Waits until the thread has ended.
    ///
    /// - Parameter deadline: How long to wait.
    /// - Returns: False when the deadline came first, or the thread waits for itself.
    @available(*, noasync, message: "it blocks its thread")
    @discardableResult
    public func join(before deadline: MonotonicInstant = .distantFuture) -> Bool {
        guard !loop.isCurrent, ended.wait(until: deadline) else { return false }
        isJoined.withLock { isJoined in
            // The gate opens at the very end of the thread, so this is short.
            if !isJoined { pthread_join(thread, nil) }
            isJoined = true
        }
        return true
    }

    /// What the new thread is given.
    private final class Start: Sendable {
        let name: String
        let niceness: Int?
        let ready = Gate()
        let ended: Gate
        let body: (@Sendable (ThreadRunLoop) -> Void)?
        let outcome = Mutex(Result<ThreadRunLoop, RunLoopError>.failure(.loopEnded))

        init(name: String, niceness: Int?, ended: Gate, body: (@Sendable (ThreadRunLoop) -> Void)?) {
            self.name = name
            self.niceness = niceness
            self.ended = ended
            self.body = body
        }

        func main() {
            defer { ThreadRunLoop.endCurrent() }
            crl_thread_set_name(name)
            let current = ThreadRunLoop.current
            // Who waits for the thread waits for its items' end, too, with a deadline. A handler may end the thread.
            current.state.withLock { $0.whenEnded = { [ended] in ended.open() } }
            // Keeps the mode from being empty.
            current.add(ThreadRunLoop.Source0(label: "kept by RunLoopThread") {})
            do throws(RunLoopError) {
                try setNiceness()
                try current.prepare()
            } catch {
                outcome.withLock { $0 = .failure(error) }
                return ready.open()
            }
            outcome.withLock { $0 = .success(current) }
            ready.open()
            body?(current)
            while !current.isStoppedForGood {
                // What a run needs was made above: this is a child that the thread has forked.
                guard (try? current.runInMode(.default, seconds: .infinity)) != nil else { return }
            }
        }

        private func setNiceness() throws(RunLoopError) {
            guard let niceness else { return }
            // On Linux each thread has its own.
            guard
                setpriority(__priority_which_t(PRIO_PROCESS.rawValue), id_t(crl_thread_id()), Int32(clamping: niceness))
                    == 0
            else {
                throw .nicenessRefused(niceness)
            }
        }
    }

    private static func startThread(_ start: Start, stackSize: Int?) throws(RunLoopError) -> pthread_t {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        if let stackSize {
            guard stackSize >= minimumStackSize, pthread_attr_setstacksize(&attributes, stackSize) == 0 else {
                throw .invalidStackSize(stackSize, minimum: minimumStackSize)
            }
        }
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
            // One error code for "too many threads" and for "not so much memory".
            if let stackSize, !isMemory(stackSize) { throw .invalidStackSize(stackSize, minimum: minimumStackSize) }
            throw error == EAGAIN ? .threadsGone : .system(call: "pthread_create", errno: error)
        }
        return thread
    }

    /// Whether so much memory can be had at this moment.
    private static func isMemory(_ size: Int) -> Bool {
        guard let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            memory != MAP_FAILED
        else { return false }
        munmap(memory, size)
        return true
    }
}
