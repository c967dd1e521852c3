import CRunLoopShims
import Glibc
import Synchronization

/// The eventfd that ends a loop's sleep. A signal handler may raise it, too: that takes no lock and no memory, and keeps
/// `errno`.
struct WakeEvent: ~Copyable {
    /// The descriptor plus one in the lower half, 0 without one. Above it a bit for the end, and the number of calls that
    /// use the descriptor.
    ///
    /// The loop's thread ends while other threads raise. The number of a closed descriptor may be another's at once, so
    /// the last user closes it. Nobody waits for a user, because a signal handler may have interrupted it.
    private let word = Atomic<UInt64>(0)

    private static let closed: UInt64 = 1 << 32
    private static let user: UInt64 = 1 << 33

    deinit { close() }

    /// The descriptor. The first call makes it; no two threads may call at once.
    func made() throws(RunLoopError) -> Int32 {
        let known = word.load(ordering: .relaxed)
        if known & Self.closed != 0 { throw .loopEnded }
        if let descriptor = Self.descriptor(known) { return descriptor }
        let made = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard made >= 0 else { throw .last("eventfd") }
        word.add(UInt64(made) + 1, ordering: .releasing)
        return made
    }

    func raise() {
        if crl_is_forked() { return }
        let found = word.add(Self.user, ordering: .acquiring).oldValue
        if found & Self.closed == 0, let descriptor = Self.descriptor(found) {
            let error = errno
            EventDescriptor.raise(descriptor)
            errno = error
        }
        let left = word.subtract(Self.user, ordering: .acquiringAndReleasing).newValue
        if left & Self.closed != 0 { closeUnused(left) }
    }

    /// Closes the descriptor, for good.
    func close() { closeUnused(word.bitwiseOr(Self.closed, ordering: .acquiringAndReleasing).newValue) }

    /// A call that comes in between closes the descriptor when it leaves.
    private func closeUnused(_ found: UInt64) {
        guard found < Self.user, let descriptor = Self.descriptor(found),
            word.compareExchange(expected: found, desired: Self.closed, ordering: .acquiringAndReleasing).exchanged
        else { return }
        let error = errno
        _ = Glibc.close(descriptor)
        errno = error
    }

    private static func descriptor(_ word: UInt64) -> Int32? {
        let number = UInt32(truncatingIfNeeded: word)
        return number == 0 ? nil : Int32(truncatingIfNeeded: number) - 1
    }
}
