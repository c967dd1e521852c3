import CRunLoopShims
import Glibc
import Synchronization

/// A thread that runs a loop, with or without work, until it is stopped, or its owner releases it.
///
///     let thread = try RunLoopThread(name: "worker")
///     try thread.loop.perform { print("on the worker") }
///     let answer = try thread.run { 6 * 7 }
///     thread.stop()
public final class RunLoopThread: Sendable {
    /// The thread's loop. Items added to it from any thread are served there.
    public let loop: ThreadRunLoop

    private let end = ThreadEnd()
    private let thread: pthread_t
    private let isJoined = Mutex(false)

    /// Starts a thread, and waits until its loop exists.
    /// - Parameters:
    ///   - name: The thread's name in the system's tools; the kernel keeps 15 bytes.
    ///   - niceness: The nice value, from −20 (most processor time) to 19; nil for the calling thread's.
    ///   - stackSize: The stack's size in bytes, at least ``minimumStackSize``; nil for the system's default.
    ///   - body: Called on the thread before its loop runs: a place to add items.
    /// - Throws: ``RunLoopError``: `invalidLimit` for another nice value, `nicenessRefused`, `invalidStackSize`,
    ///   `outOfThreads`, `outOfDescriptors`, `forked`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public init(
        name: String = "run loop", niceness: Int? = nil, stackSize: Int? = nil,
        body: (@Sendable (ThreadRunLoop) -> Void)? = nil
    ) throws(RunLoopError) {
        let made = Mutex(Made.failure(.loopEnded))
        let ready = Latch()
        thread = try Self.start(name, niceness, stackSize, body, end) { result in
            made.withLock { $0 = result }
            ready.open()
        }
        _ = ready.wait(until: .distantFuture)
        do throws(RunLoopError) {
            loop = try made.withLock { $0 }.get()
        } catch {
            pthread_join(thread, nil)
            throw error
        }
    }

    /// Starts a thread, and suspends until its loop exists.
    /// - Parameters:
    ///   - name: The thread's name in the system's tools; the kernel keeps 15 bytes.
    ///   - niceness: The nice value, from −20 (most processor time) to 19; nil for the calling thread's.
    ///   - stackSize: The stack's size in bytes, at least ``minimumStackSize``; nil for the system's default.
    ///   - body: Called on the thread before its loop runs: a place to add items.
    /// - Throws: ``RunLoopError``: `invalidLimit` for another nice value, `nicenessRefused`, `invalidStackSize`,
    ///   `outOfThreads`, `outOfDescriptors`, `forked`.
    public init(
        name: String = "run loop", niceness: Int? = nil, stackSize: Int? = nil,
        body: (@Sendable (ThreadRunLoop) -> Void)? = nil
    ) async throws(RunLoopError) {
        let made = AwaitedState(Made?.none) { $0 }
        thread = try Self.start(name, niceness, stackSize, body, end) { result in made.change { $0 = result } }
        // In a task that is not cancelled, because the thread is running, and ends soon when there is no loop.
        let result = await Task { [end] in
            let result = await made.value()
            if case .failure = result { await end.value() }
            return result
        }.value
        do throws(RunLoopError) {
            loop = try (result ?? .failure(.loopEnded)).get()
        } catch {
            pthread_detach(thread)
            throw error
        }
    }

    private typealias Made = Result<ThreadRunLoop, RunLoopError>

    private static func start(
        _ name: String, _ niceness: Int?, _ stackSize: Int?, _ body: (@Sendable (ThreadRunLoop) -> Void)?,
        _ end: ThreadEnd, _ tell: @escaping @Sendable (Made) -> Void
    ) throws(RunLoopError) -> pthread_t {
        if crl_is_forked() { throw .forked }
        try RunLoopError.check("niceness", niceness ?? 0, in: -20...19)
        return try startThread(stackSize: stackSize) {
            defer { LoopCore.endCurrent() }
            crl_thread_set_name(name)
            let current = ThreadRunLoop.current
            // After the items' last callouts. A handler may end the thread, so a `defer` here would not do.
            current.state.withLock { $0.whenEnded = { end.tell() } }
            // Keeps the mode from being empty.
            let kept = ThreadRunLoop.Source0(label: "kept by RunLoopThread") {}
            do throws(RunLoopError) {
                try current.add(kept)
                // On Linux each thread has a nice value of its own.
                let which = __priority_which_t(PRIO_PROCESS.rawValue)
                if let niceness, setpriority(which, id_t(crl_thread_id()), Int32(clamping: niceness)) != 0 {
                    throw .nicenessRefused(niceness)
                }
                // Makes the descriptors, so that no later run fails, except in a child that the thread has forked.
                try current.runInMode(seconds: 0)
            } catch {
                return tell(.failure(error))
            }
            tell(.success(current))
            body?(current)
            while !current.isStoppedForGood, (try? current.runInMode(seconds: .infinity)) != nil {}
        }
    }

    deinit {
        stop()
        if !isJoined.withLock({ $0 }) { pthread_detach(thread) }
    }

    /// The smallest stack of a thread, in bytes. It leaves some ten kilobytes to the closures called on the thread.
    public static let minimumStackSize = max(64 << 10, Int(PTHREAD_STACK_MIN))

    /// Ends all runs of the loop, and then the thread, when the callout in progress has returned. Queued work is not
    /// called; ``finish()`` calls it. Any thread may call it, also the thread itself.
    public func stop() { loop.stopForGood() }

    /// Waits until the thread has ended.
    /// - Returns: False when the deadline came first, or on the thread itself.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    @discardableResult
    public func join(before deadline: ContinuousClock.Instant? = nil) -> Bool {
        join(until: MonotonicInstant(deadline))
    }

    @discardableResult
    package func join(until deadline: MonotonicInstant) -> Bool {
        guard !loop.isCurrent, end.wait(until: deadline) else { return false }
        isJoined.withLock { isJoined in
            // The end is reported at the very end of the thread, so this is short.
            if !isJoined { pthread_join(thread, nil) }
            isJoined = true
        }
        return true
    }

    /// Suspends until the thread has ended.
    /// - Returns: False when the deadline came first.
    /// - Throws: `CancellationError` when the task was cancelled.
    @discardableResult
    public nonisolated(nonsending) func join(before deadline: ContinuousClock.Instant? = nil) async throws -> Bool {
        try await end.value(before: deadline)
    }
}
