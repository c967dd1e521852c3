import Glibc

/// What C puts around a socket that several threads use. A `Mutex` is no peer: under contention the kernel hands it
/// over from thread to thread, and each sends one message a switch.
final class PlainLock: @unchecked Sendable {
    // Sound: a mutex is for many threads, and does not move.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    init() { pthread_mutex_init(mutex, nil) }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    func withLock(_ body: () throws -> Void) rethrows {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        try body()
    }
}
