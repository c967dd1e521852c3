import Dispatch
import Glibc
import RunLoopLocks
import RunLoops
import TestSupport

/// A thread with a loop of its own that does one thing after another, while the caller waits.
final class Companion: Sendable {
    private let jobs = Lock<[@Sendable () -> Void]>([])
    private let given = DispatchSemaphore(value: 0)
    private let done = DispatchSemaphore(value: 0)
    private let thread = Lock<Helper<Void>?>(nil)

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
