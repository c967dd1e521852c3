import Dispatch
import Glibc
import RunLoops

/// Runs the body on a fresh thread, and returns its result once that thread, and so its loop, has ended.
package func onThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) -> Result {
    let job = Job(body)
    let thread = start(job)
    pthread_join(thread, nil)
    guard let result = job.result.withLock({ $0 }) else { preconditionFailure("the thread left without a result") }
    return result
}

/// Runs the body on a fresh thread while the caller goes on; `join` waits for its end.
package struct Helper {
    private let thread: pthread_t

    package init(_ body: @escaping @Sendable () -> Void) { thread = start(Job(body)) }

    package func join() { pthread_join(thread, nil) }
}

/// A thread with a loop of its own that does one thing after another, while the caller waits.
final class Companion: Sendable {
    private let jobs = Lock<[@Sendable () -> Void]>([])
    private let given = DispatchSemaphore(value: 0)
    private let done = DispatchSemaphore(value: 0)
    private let thread = Lock<Helper?>(nil)

    init() {
        let helper = Helper { [self] in
            while true {
                given.wait()
                guard let job = jobs.withLock({ $0.popLast() }) else { return }
                job()
                done.signal()
            }
        }
        thread.withLock { $0 = helper }
    }

    func perform(_ job: @escaping @Sendable () -> Void) {
        jobs.withLock { $0.append(job) }
        given.signal()
        done.wait()
    }

    /// Ends the thread, and so its loop.
    func end() {
        given.signal()
        thread.withLock { $0 }?.join()
    }
}

private final class Job<Result: Sendable>: Sendable {
    let body: @Sendable () -> Result
    let result = Lock<Result?>(nil)

    init(_ body: @escaping @Sendable () -> Result) { self.body = body }

    func run() {
        let value = body()
        result.withLock { $0 = value }
    }
}

private func start<Result: Sendable>(_ job: Job<Result>) -> pthread_t {
    var thread = pthread_t()
    let run: @Sendable () -> Void = { job.run() }
    let argument = Unmanaged.passRetained(Start(run)).toOpaque()
    let error = pthread_create(
        &thread, nil,
        { argument in
            guard let argument else { return nil }
            Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().run()
            return nil
        }, argument)
    precondition(error == 0, "no thread")
    return thread
}

private final class Start: Sendable {
    let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// What happened, in order; told from any thread.
package final class Trace: Sendable {
    private let events = Lock<[String]>([])

    package init() {}

    package var all: [String] { events.withLock { $0 } }

    package func callAsFunction(_ event: String) { events.withLock { $0.append(event) } }
}

/// An eventfd, in a place where no error can be thrown.
package func madeEvent() -> EventDescriptor {
    do { return try EventDescriptor() } catch { preconditionFailure("\(error)") }
}

/// Sleeps until a time has come.
func sleep(until date: MonotonicInstant) {
    while !date.hasPassed { usleep(UInt32(max(1, MonotonicInstant.now.duration(to: date) / .microseconds(1)))) }
}
