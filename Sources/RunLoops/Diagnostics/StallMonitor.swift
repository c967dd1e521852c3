import CRunLoopShims
import Synchronization

/// Watches a loop from a thread of its own, and reports passes that take too long: callouts that keep the loop from
/// everything else.
///
///     let monitor = try StallMonitor(.main, threshold: .milliseconds(250)) { stall in print(stall) }
///
/// A pass begins when the loop wakes up, or has ended the pass before, and ends when it goes to sleep. A pass in which
/// a callout runs the loop anew is as long as the loop goes unserved. The monitor looks at a busy loop once a
/// threshold, and not at all at one that sleeps. It stops when its owner lets go of it.
public final class StallMonitor: Sendable {
    /// A pass that takes, or has taken, longer than the threshold.
    public struct Stall: Sendable, CustomStringConvertible {
        /// What the loop is in the middle of.
        public enum Phase: String, Sendable {
            /// The loop's own work, or what its thread does between runs.
            case betweenCallouts = "between callouts"
            /// A block.
            case block
            /// A task's work, of an actor that lives on the loop or a task that prefers it.
            case task
            /// libdispatch's main queue, and the main actor's work on it.
            case mainQueue = "the main queue"
            /// A ``ThreadRunLoop/Source0`` or ``ThreadRunLoop/Source1``.
            case source
            /// A ``ThreadRunLoop/Timer``.
            case timer
            /// A ``ThreadRunLoop/Observer``.
            case observer
        }

        /// The mode of the innermost run.
        public let mode: ThreadRunLoop.Mode?
        /// What the loop was doing when it was looked at.
        public let phase: Phase
        /// The item that was called out to, with its label; nil when it was none, or has left the loop since.
        public let item: String?
        /// When the pass began, to some milliseconds.
        public let since: MonotonicInstant
        /// How long it has taken until now, or took in all.
        public let duration: Duration
        /// Whether it is over.
        public let isOver: Bool

        /// A line that says all this.
        public var description: String {
            let place = mode.map { " in mode \($0)" } ?? ""
            let milliseconds = Int(duration / .milliseconds(1))
            return isOver
                ? "was stalled for \(milliseconds) ms\(place) by \(item ?? phase.rawValue)"
                : "has been stalled for \(milliseconds) ms\(place) by \(item ?? phase.rawValue)"
        }
    }

    /// Called on the monitor's thread.
    public typealias Handler = @Sendable (Stall) -> Void

    private let thread: RunLoopThread
    private let watch: StallWatch

    /// Watches a loop.
    ///
    /// - Parameters:
    ///   - loop: The loop, of any thread.
    ///   - threshold: How long a pass may take; not less than the clock's tick, which is 4 ms on most systems.
    ///   - handler: Called when a pass has taken longer, again when it has taken twice as long, four times, and so on,
    ///     and when it is over.
    /// - Throws: ``RunLoopError`` when the loop's thread has ended, or there is no thread, or no descriptor, to watch from.
    public init(
        _ loop: ThreadRunLoop, threshold: Duration = .milliseconds(250), handler: @escaping Handler
    ) throws(RunLoopError) {
        if loop.hasEnded { throw .loopEnded }
        thread = try RunLoopThread(name: "stall monitor")
        watch = StallWatch(loop, threshold: max(threshold, StallWatch.tick), monitor: thread.loop, handler: handler)
        watch.start()
    }

    deinit { stop() }

    /// Watches no longer. No call of the handler begins after this has returned, but one may be in progress.
    /// Any thread may call it.
    public func stop() {
        watch.stop()
        thread.stop()
    }
}
