import CRunLoopShims

/// An event that happens once, and that threads wait for.
package final class Latch: @unchecked Sendable {
    // Sound: the word is used atomically.
    private let word = UnsafeMutablePointer<UInt32>.allocate(capacity: 1)

    package init() { word.initialize(to: 0) }

    deinit { word.deallocate() }

    package func open() { crl_latch_open(word) }

    /// False when the deadline came first.
    package func wait(until deadline: MonotonicInstant) -> Bool { crl_latch_wait(word, deadline.nanoseconds) }
}
