import CRunLoopShims
import Glibc
import Synchronization

/// A thread that runs a loop, with or without work, until it is stopped, or its owner releases it.
///
///     let thread = try RunLoopThread(name: "worker")
///     thread.loop.perform { print("on the worker") }
///     let answer = try thread.run { 6 * 7 }
///     thread.stop()
public final class RunLoopThread: Sendable {
    /// The thread's loop. Items added to it from any thread are served there.
    public let loop: ThreadRunLoop

    private let ended = Latch()
    private let thread: pthread_t
    private let isJoined = Mutex(false)

    /// Starts a thread, and returns when its loop exists.
    /// - Parameters:
    ///   - name: The thread's name in the system's tools; the kernel keeps 15 bytes.
    ///   - niceness: The nice value, from −20 (most processor time) to 19; nil for the calling thread's.
    ///   - stackSize: The stack's size in bytes, at least ``minimumStackSize``; nil for the system's default.
    ///   - body: Called on the thread before its loop runs: a place to add items.
    /// - Throws: ``RunLoopError``: `nicenessRefused`, `invalidStackSize`, `outOfThreads`, `outOfDescriptors`, `forked`.
    public init(
        name: String = "run loop", niceness: Int? = nil, stackSize: Int? = nil,
        body: (@Sendable (ThreadRunLoop) -> Void)? = nil
    ) throws(RunLoopError) {
        if crl_is_forked() { throw .forked }
        let ready = Latch()
        let outcome = Mutex(Result<ThreadRunLoop, RunLoopError>.failure(.loopEnded))
        thread = try Self.startThread(stackSize: stackSize) { [ended] in
            defer { ThreadRunLoop.endCurrent() }
            crl_thread_set_name(name)
            let current = ThreadRunLoop.current
            // Opened after the items' last callouts. A handler may end the thread, so a `defer` here would not do.
            current.state.withLock { $0.whenEnded = { ended.open() } }
            // Keeps the mode from being empty.
            current.add(ThreadRunLoop.Source0(label: "kept by RunLoopThread") {})
            do throws(RunLoopError) {
                // On Linux each thread has a nice value of its own.
                let which = __priority_which_t(PRIO_PROCESS.rawValue)
                if let niceness, setpriority(which, id_t(crl_thread_id()), Int32(clamping: niceness)) != 0 {
                    throw .nicenessRefused(niceness)
                }
                // Makes the descriptors, so that no later run fails, except in a child that the thread has forked.
                try current.runInMode(seconds: 0)
            } catch {
                outcome.withLock { $0 = .failure(error) }
                return ready.open()
            }
            outcome.withLock { $0 = .success(current) }
            ready.open()
            body?(current)
            while !current.isStoppedForGood, (try? current.runInMode(seconds: .infinity)) != nil {}
        }
        _ = ready.wait(until: .distantFuture)
        do throws(RunLoopError) {
            loop = try outcome.withLock { $0 }.get()
        } catch {
            pthread_join(thread, nil)
            throw error
        }
    }

    deinit {
        stop()
        if !isJoined.withLock({ $0 }) { pthread_detach(thread) }
    }

    /// The smallest stack of a thread, in bytes. It leaves some ten kilobytes to the closures called on the thread.
    public static let minimumStackSize = max(64 << 10, Int(PTHREAD_STACK_MIN))

    /// Calls a closure on the thread, in its loop's common modes, and waits for its result; at once when called on
    /// the thread itself. Any thread may call it. For a call without waiting, use the ``loop``.
    /// - Throws: The closure's error; ``RunLoopError/loopEnded`` when the thread was stopped or ends before the call.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    @discardableResult
    public func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
        if loop.isCurrent { return try body() }
        guard !loop.isStoppedForGood else { throw RunLoopError.loopEnded }
        return try LoopCall(body).wait(for: loop, inModes: [.common]).get()
    }

    /// Calls a closure on the thread, in its loop's common modes, and suspends until it has returned.
    /// - Throws: As the other one, and `CancellationError` when the task was cancelled before.
    @discardableResult
    public func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        guard !loop.isStoppedForGood else { throw RunLoopError.loopEnded }
        return try await loop.execute(body)
    }

    /// Ends all runs of the loop, and then the thread, when the callout in progress has returned. Queued work is not
    /// called; ``finish()`` calls it. Any thread may call it, also the thread itself.
    public func stop() { loop.stopForGood() }

    /// Calls the queued blocks and requests of the default mode and the common modes, and then stops. Any thread may
    /// call it, also the thread itself. Delayed requests and closures for other modes are not called; closures given
    /// later may or may not be. Keep the thread until ``join(before:)`` has returned: its release stops it at once.
    public func finish() {
        // Requests are called after the queued blocks, and this one after all other requests.
        loop.perform(order: .max) { [loop] in loop.stopForGood() }
    }

    /// Waits until the thread has ended. False when the deadline came first, or on the thread itself.
    @available(*, noasync, message: "it blocks its thread")
    @discardableResult
    public func join(before deadline: ContinuousClock.Instant? = nil) -> Bool {
        join(until: MonotonicInstant(deadline))
    }

    @discardableResult
    package func join(until deadline: MonotonicInstant) -> Bool {
        guard !loop.isCurrent, ended.wait(until: deadline) else { return false }
        isJoined.withLock { isJoined in
            // The latch opens at the very end of the thread, so this is short.
            if !isJoined { pthread_join(thread, nil) }
            isJoined = true
        }
        return true
    }

    private final class Start: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Starts a thread without a loop. The caller joins or detaches it.
    package static func startThread(
        stackSize: Int? = nil, _ body: @escaping @Sendable () -> Void
    ) throws(RunLoopError) -> pthread_t {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        if let stackSize {
            guard stackSize >= minimumStackSize, pthread_attr_setstacksize(&attributes, stackSize) == 0 else {
                throw .invalidStackSize(stackSize, minimum: minimumStackSize)
            }
        }
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(Start(body))
        let error = pthread_create(
            &thread, &attributes,
            { argument in
                if let argument { Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().body() }
                return nil
            }, argument.toOpaque())
        guard error == 0 else {
            argument.release()
            // The kernel reports "too many threads" and "too little memory" with the same code.
            if let stackSize, !canAllocate(stackSize) { throw .invalidStackSize(stackSize, minimum: minimumStackSize) }
            throw error == EAGAIN ? .threadsGone : .system(call: "pthread_create", errno: error)
        }
        return thread
    }

    private static func canAllocate(_ size: Int) -> Bool {
        let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        return memory != MAP_FAILED && munmap(memory, size) == 0
    }
}
