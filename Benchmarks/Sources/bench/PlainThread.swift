import Glibc
import Synchronization

/// A thread with nothing on it.
struct PlainThread {
    private let thread: pthread_t

    @discardableResult
    static func start(_ body: @escaping @Sendable () -> Void) throws -> PlainThread {
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(Body(body))
        let error = pthread_create(
            &thread, nil,
            { argument in
                if let argument { Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().body() }
                return nil
            }, argument.toOpaque())
        guard error == 0 else {
            argument.release()
            throw BenchError.system("pthread_create", errno: error)
        }
        return PlainThread(thread: thread)
    }

    func join() { pthread_join(thread, nil) }

    /// Does the work on a new thread, waits for it, and lets the thread end.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
        let outcome = Outcome<Value>()
        try start { outcome.result.withLock { $0 = Result { try body() } } }.join()
        guard let result = outcome.result.withLock({ $0 }) else { preconditionFailure("the thread has ended") }
        return try result.get()
    }

    private final class Body: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    private final class Outcome<Value: Sendable>: Sendable {
        let result = Mutex<Result<Value, any Error>?>(nil)
    }
}
