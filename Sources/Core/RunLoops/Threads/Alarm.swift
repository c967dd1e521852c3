// Dispatch does not say that its timers are safe to use from any thread, and they are.
@preconcurrency import Dispatch

/// Calls a closure at a deadline, unless it is cancelled before: a deadline of something that tasks wait for.
///
/// A cancelled alarm frees its memory. A cancelled `Task.sleep` leaves its job in the runtime until the deadline, so that a
/// program with many waits and long deadlines would grow.
package struct Alarm: Sendable {
    private let timer: any DispatchSourceTimer

    /// - Parameters:
    ///   - deadline: The time of the call. The call is at once when the time has passed.
    ///   - body: Called on a thread of Dispatch's, which it must not block.
    package init(at deadline: MonotonicInstant, _ body: @escaping @Sendable () -> Void) {
        timer = DispatchSource.makeTimerSource()
        timer.setEventHandler(handler: body)
        // In Dispatch's times the upper half stands for other clocks.
        let time =
            deadline.nanoseconds < 1 << 62 ? DispatchTime(uptimeNanoseconds: deadline.nanoseconds) : .distantFuture
        timer.schedule(deadline: time)
        timer.activate()
    }

    /// The closure is not called any more, unless it is being called now.
    package func cancel() {
        // A cancelled timer keeps its handler, and with it more memory than the rest of it.
        timer.setEventHandler(handler: nil)
        timer.cancel()
    }
}
