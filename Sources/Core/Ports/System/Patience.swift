/// A wait for some time in which this process runs, and hears others.
///
/// The time of a process that is stopped, or whose machine is suspended, passes as well. When it goes on, a deadline has
/// passed, and what has come before the deadline may still be unread. The same is true while a handler blocks the library's
/// own thread. So the time has several looks. A look that is late does not count, and another one follows.
package struct Patience<Instant: InstantProtocol<Duration>>: Sendable {
    private let period: Duration
    /// A look that is later than this shows that the process did not run.
    private let delay: Duration
    private var looks = 4
    package private(set) var nextLook: Instant

    package init(_ time: Duration, from start: Instant) {
        period = time / looks
        delay = max(period, .milliseconds(10))
        nextLook = start.advanced(by: period)
    }

    /// Nothing has come until now.
    /// - Returns: Whether the time is over.
    package mutating func isOver(at now: Instant) -> Bool {
        if now < nextLook { return looks <= 0 }
        if now < nextLook.advanced(by: delay) { looks -= 1 }
        nextLook = now.advanced(by: period)
        return looks <= 0
    }
}
