import Glibc
import RunLoopLocks
import RunLoops

/// A thread that runs a body, and then ends with its loop.
package final class Helper<Result: Sendable>: Sendable {
    private let thread: pthread_t
    private let isJoined = Lock(false)
    private let result: Shared<Result?>
    private let returned: Latch

    package init(_ body: @escaping @Sendable () -> Result) {
        let (result, returned) = (Shared<Result?>(nil), Latch())
        let start = Start {
            let value = body()
            result.withLock { $0 = value }
            returned.open()
        }
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, Unmanaged.passRetained(start).toOpaque())
        precondition(error == 0, "no thread")
        (self.thread, self.result, self.returned) = (thread, result, returned)
    }

    deinit { if !isJoined.withLock({ $0 }) { pthread_detach(thread) } }

    /// Waits for the end of the thread, and so of its loop. Called once.
    @discardableResult
    package func join() -> Result {
        isJoined.withLock { $0 = true }
        pthread_join(thread, nil)
        guard let result = result.withLock({ $0 }) else { preconditionFailure("the thread left without a result") }
        return result
    }

    /// What the body has returned; nil when it has not returned in time.
    package func value(before deadline: ContinuousClock.Instant = .patience) -> Result? {
        returned.wait(until: MonotonicInstant(deadline)) ? result.withLock { $0 } : nil
    }

    /// The same for a task, which must not block its thread.
    package func ended() async -> Result? {
        await waitUntil { returned.wait(until: .distantPast) } ? result.withLock { $0 } : nil
    }
}

private final class Start: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Runs the body on a fresh thread, and returns its result once that thread, and so its loop, has ended.
package func onThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) -> Result { Helper(body).join() }
