@preconcurrency import Glibc

// Darwin's locks, as POSIX mutexes: a zeroed one is unlocked.

// swift-format-ignore: AlwaysUseLowerCamelCase
/// A lock for one owner at a time. As on macOS, it must stay at one address.
public struct os_unfair_lock {
    fileprivate var mutex = pthread_mutex_t()

    /// An unlocked lock.
    public init() {}
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// The address of a lock.
public typealias os_unfair_lock_t = UnsafeMutablePointer<os_unfair_lock>
// swift-format-ignore: AlwaysUseLowerCamelCase
/// A lock for one owner at a time.
public typealias os_unfair_lock_s = os_unfair_lock

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Locks, and waits as long as another thread has the lock.
public func os_unfair_lock_lock(_ lock: os_unfair_lock_t) { pthread_mutex_lock(&lock.pointee.mutex) }

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Locks if no thread has the lock, and returns whether it did.
public func os_unfair_lock_trylock(_ lock: os_unfair_lock_t) -> Bool { pthread_mutex_trylock(&lock.pointee.mutex) == 0 }

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Unlocks. Only the thread that has locked may call this function.
public func os_unfair_lock_unlock(_ lock: os_unfair_lock_t) { pthread_mutex_unlock(&lock.pointee.mutex) }

/// A value behind a lock, as the module `os` has it on macOS.
public final class OSAllocatedUnfairLock<State>: @unchecked Sendable {
    // Sound: the lock guards the state.
    private var state: State
    private let address = os_unfair_lock_t.allocate(capacity: 1)

    /// Makes a lock for a value.
    public init(initialState: sending State) {
        state = initialState
        address.initialize(to: os_unfair_lock())
    }

    /// Makes a lock for a value that other threads may reach without the lock.
    public init(uncheckedState: State) {
        state = uncheckedState
        address.initialize(to: os_unfair_lock())
    }

    deinit { address.deallocate() }

    /// Calls the body with the lock, and returns what the body returns.
    public func withLock<Result: Sendable>(_ body: @Sendable (inout State) throws -> Result) rethrows -> Result {
        try withLockUnchecked(body)
    }

    /// Calls the body with the lock, and returns what the body returns, which other threads may have, too.
    public func withLockUnchecked<Result>(_ body: (inout State) throws -> Result) rethrows -> Result {
        os_unfair_lock_lock(address)
        defer { os_unfair_lock_unlock(address) }
        return try body(&state)
    }
}

extension OSAllocatedUnfairLock where State == Void {
    /// Makes a lock without a value.
    public convenience init() { self.init(uncheckedState: ()) }

    /// Locks, and waits as long as another thread has the lock.
    @available(*, noasync)
    public func lock() { os_unfair_lock_lock(address) }

    /// Unlocks. Only the thread that has locked may call this method.
    @available(*, noasync)
    public func unlock() { os_unfair_lock_unlock(address) }

    /// Calls the body with the lock, and returns what the body returns.
    public func withLock<Result: Sendable>(_ body: @Sendable () throws -> Result) rethrows -> Result {
        try withLockUnchecked { _ in try body() }
    }
}
