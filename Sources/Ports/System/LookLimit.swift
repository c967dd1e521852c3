import CRunLoopShims
import Synchronization

/// Limits looks that cost system calls to ten a second.
struct LookLimit: ~Copyable, Sendable {
    /// Until this time of the coarse clock, nobody looks.
    private let next = Atomic<UInt64>(0)

    func mayLook() -> Bool {
        let (now, next) = (crl_coarse_now(), next.load(ordering: .relaxed))
        guard now >= next else { return false }
        return self.next.compareExchange(expected: next, desired: now + 100_000_000, ordering: .relaxed).exchanged
    }
}
