import CRunLoopShims
import Glibc

/// Watches a loop from a thread of its own, and reports passes that take too long, and what blocks them.
///
///     let monitor = try StallMonitor(.main, threshold: .milliseconds(250)) { stall in print(stall) }
///
/// A pass begins when the loop wakes up, or has ended the pass before, and ends when the loop goes to sleep. A run
/// inside a callout has passes of its own. The monitor checks a busy loop once per threshold, and a sleeping loop
/// never. It stops when its owner releases it.
public final class StallMonitor: Sendable {
    /// A pass that takes, or has taken, longer than the threshold.
    public struct Stall: Sendable, CustomStringConvertible {
        /// The mode of the innermost run.
        public let mode: ThreadRunLoop.Mode?
        /// The kind of callout that the loop was in when the monitor checked; nil for the loop's own work, or the
        /// thread's work between runs.
        public let callout: CalloutKind?
        /// The item in whose callout the loop was, with its label; nil when there was none, or it has left since.
        public let item: String?
        /// The start of the pass, to some milliseconds.
        public let since: ContinuousClock.Instant
        /// The duration of the pass, until now or in all.
        public internal(set) var duration: Duration
        /// Whether the pass is over.
        public internal(set) var isOver: Bool

        /// A line for a log.
        public var description: String {
            let place = mode.map { " in mode \($0)" } ?? ""
            let milliseconds = Int(duration / .milliseconds(1))
            let verb = isOver ? "was" : "has been"
            return "\(verb) stalled for \(milliseconds) ms\(place) by \(item ?? callout.text)"
        }
    }

    /// Called on the monitor's thread.
    public typealias Handler = @Sendable (Stall) -> Void

    private let watch: StallWatch

    /// Watches a loop. The handler is called when a pass has taken longer than the threshold, again at twice that time,
    /// at four times, and so on, and when the pass is over. The threshold is above zero, and counts as at least the
    /// clock's tick, mostly 4 ms.
    /// - Throws: ``RunLoopError`` when the threshold is not above zero, the loop's thread has ended, or no thread is
    ///   left for the monitor.
    public init(
        _ loop: ThreadRunLoop, threshold: Duration = .milliseconds(250), handler: @escaping Handler
    ) throws(RunLoopError) {
        if crl_is_forked() { throw .forked }
        try RunLoopError.check("threshold", threshold, in: .nanoseconds(1) ... .seconds(Int64.max))
        if loop.hasEnded { throw .loopEnded }
        let watch = StallWatch(loop, threshold: threshold, handler: handler)
        self.watch = watch
        // When this throws, the deinit stops the watch.
        pthread_detach(try RunLoopThread.startThread { watch.run() })
    }

    deinit { stop() }

    /// Stops watching. No call of the handler begins afterwards; one may be in progress. Any thread may call it.
    public func stop() { watch.stop() }
}
