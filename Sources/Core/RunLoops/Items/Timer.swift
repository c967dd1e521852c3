import CRunLoopShims
import Synchronization

/// Calls a handler at a time, once or on a grid of times. The corresponding CF type is `CFRunLoopTimer`.
/// A timer belongs to one loop at a time, until no mode of that loop has it. Any thread may call its methods. Fire times
/// missed while the loop was busy become one, and the next fire time is on the grid again.
public final class RunLoopTimer: Sendable {
    /// Called on the loop's thread.
    public typealias Handler = @Sendable (RunLoopTimer) -> Void

    /// Nil for a timer that fires once. The corresponding CF function is `CFRunLoopTimerGetInterval`.
    public let interval: Duration?
    /// Not used, as in CFRunLoop. The corresponding CF function is `CFRunLoopTimerGetOrder`.
    public let order: Int
    /// The item's name in dumps and stall reports. The corresponding CF callback is `copyDescription`.
    public let label: String?

    private struct State {
        var handler: Handler?
        var fireDate: MonotonicInstant
        var tolerance = Duration.zero
        var callCount = 0
        var isFiring = false
    }

    private let state: Mutex<State>
    private let step: UInt64
    let membership = LoopMembership()

    /// Makes a timer. The corresponding CF function is `CFRunLoopTimerCreate`.
    ///
    /// A suspension of the machine after this call puts the fire dates off, as in CFRunLoop.
    /// - Parameters:
    ///   - fireDate: The first time at which the timer fires. A time in the past counts as now.
    ///   - interval: The time from one firing to the next. Without it, or with zero, the timer fires once, and is then
    ///     invalid.
    ///   - order: Kept, and not used, as by CFRunLoop.
    ///   - label: The item's name in dumps and stall reports.
    ///   - handler: Called on the loop's thread.
    public convenience init(
        at fireDate: ContinuousClock.Instant, every interval: Duration? = nil, order: Int = 0, label: String? = nil,
        handler: @escaping Handler
    ) {
        self.init(
            due: MonotonicInstant(fireDate), every: interval, order: order, label: label, handler: handler)
    }

    package init(
        due fireDate: MonotonicInstant, every interval: Duration? = nil, order: Int = 0, label: String? = nil,
        handler: @escaping Handler
    ) {
        step = interval.map { MonotonicInstant.distantPast.advanced(by: $0).nanoseconds } ?? 0
        self.interval = step == 0 ? nil : interval
        self.order = order
        self.label = label
        state = Mutex(State(handler: handler, fireDate: max(fireDate, .now)))
    }

    /// Makes a timer that fires after a delay, or repeatedly at that interval.
    public convenience init(
        after delay: Duration, repeats: Bool = false, label: String? = nil, handler: @escaping Handler
    ) {
        self.init(due: .now + delay, every: repeats ? delay : nil, label: label, handler: handler)
    }

    /// Whether the timer repeats. The corresponding CF function is `CFRunLoopTimerDoesRepeat`.
    public var repeats: Bool { interval != nil }

    /// The next time at which the timer fires. A new value moves the grid; a time in the past counts as now. The date
    /// of an invalid timer does not change.
    /// The corresponding CF functions are `CFRunLoopTimerGetNextFireDate` and `CFRunLoopTimerSetNextFireDate`.
    public var nextFireDate: ContinuousClock.Instant {
        get { due.continuous }
        set { due = MonotonicInstant(newValue) }
    }

    /// ``nextFireDate`` on the clock of the loop.
    package var due: MonotonicInstant {
        get { crl_is_forked() ? .distantFuture : state.withLock { $0.fireDate } }
        set {
            if crl_is_forked() { return }
            let date = max(newValue, .now)
            state.withLock { if $0.handler != nil { $0.fireDate = date } }
            membership.owner?.requeue(self)
        }
    }

    /// How late the timer may fire. The hint is kept and not used. Never negative, and at most half the interval.
    /// The corresponding CF functions are `CFRunLoopTimerGetTolerance` and `CFRunLoopTimerSetTolerance`.
    public var tolerance: Duration {
        get { crl_is_forked() ? .zero : state.withLock { $0.tolerance } }
        set {
            if crl_is_forked() { return }
            let tolerance = max(.zero, interval.map { min(newValue, $0 / 2) } ?? newValue)
            state.withLock { $0.tolerance = tolerance }
        }
    }

    /// False after ``invalidate()`` or the last firing. The corresponding CF function is `CFRunLoopTimerIsValid`.
    public var isValid: Bool { !crl_is_forked() && state.withLock { $0.handler != nil } }

    /// Removes the timer from its loop for good. The corresponding CF function is `CFRunLoopTimerInvalidate`.
    public func invalidate() { Item.timer(self).invalidate { state.withLock { $0.handler.take() } } }

    var callCount: Int { state.withLock { $0.callCount } }

    /// The date for the timer queues; nil while the handler runs, so that the timer does not fire inside itself.
    var queuedFireDate: MonotonicInstant? {
        state.withLock { $0.isFiring || $0.handler == nil ? nil : $0.fireDate }
    }

    /// Begins the timer's callout if the timer is due, and the loop has it. Returns the handler and the date to fire for.
    func beginFiring(in loop: LoopThread) -> (handler: Handler, date: MonotonicInstant)? {
        guard membership.isOnly(loop) else { return nil }
        return state.withLock { state in
            guard let handler = state.handler, !state.isFiring, state.fireDate.hasPassed else { return nil }
            state.isFiring = true
            state.callCount += 1
            return (handler, state.fireDate)
        }
    }

    /// Ends the callout, and moves the timer to its next time.
    func endFiring(for date: MonotonicInstant) {
        if step == 0 { invalidate() }
        state.withLock { state in
            state.isFiring = false
            // A date that the handler has set is later, and stays; otherwise the next time of the grid.
            if step > 0, state.fireDate <= date { state.fireDate = nextDate(after: date) }
        }
        if step > 0 { membership.owner?.requeue(self) }
    }

    private func nextDate(after date: MonotonicInstant) -> MonotonicInstant {
        let missed = (max(date, .now).nanoseconds - date.nanoseconds) / step
        let next = UInt128(date.nanoseconds) + (UInt128(missed) + 1) * UInt128(step)
        return MonotonicInstant(nanoseconds: UInt64(clamping: next))
    }
}
