import Glibc

/// A thread that calls a closure, and then ends with its loop.
struct Worker {
    private let thread: pthread_t

    init(_ body: @escaping () -> Void) {
        let start = Unmanaged.passRetained(Start(body))
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            { start in
                guard let start else { return nil }
                Unmanaged<Start>.fromOpaque(start).takeRetainedValue().body()
                return nil
            }, start.toOpaque())
        check(error == 0, "no thread")
        self.thread = thread
    }

    func join() { pthread_join(thread, nil) }

    private final class Start {
        let body: () -> Void

        init(_ body: @escaping () -> Void) { self.body = body }
    }
}
