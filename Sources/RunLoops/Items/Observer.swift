import CRunLoopShims
import Synchronization

extension ThreadRunLoop {
    /// Calls a handler when a run of a loop comes to certain points. The corresponding CF type is `CFRunLoopObserver`.
    /// It belongs to one loop at a time, until no mode of that loop has it. Any thread may call its methods.
    public final class Observer: Sendable {
        /// Called on the loop's thread with the point that the run has come to.
        public typealias Handler = @Sendable (Observer, Activity) -> Void

        /// The points to call it at. The corresponding CF function is `CFRunLoopObserverGetActivities`.
        public let activities: Activity
        /// Whether it is called more than once. The corresponding CF function is `CFRunLoopObserverDoesRepeat`.
        public let repeats: Bool
        /// Observers of lower order are called first; observers of equal order in the order they were added.
        /// The corresponding CF function is `CFRunLoopObserverGetOrder`.
        public let order: Int
        /// The item's name in dumps and stall reports. The corresponding CF callback is `copyDescription`.
        public let label: String?

        private struct State {
            var handler: Handler?
            var callCount = 0
            var isTold = false
        }

        private let state: Mutex<State>
        let membership = LoopMembership()

        /// Makes an observer. The corresponding CF function is `CFRunLoopObserverCreateWithHandler`.
        public init(
            _ activities: Activity, repeats: Bool = true, order: Int = 0, label: String? = nil,
            handler: @escaping Handler
        ) {
            self.activities = activities
            self.repeats = repeats
            self.order = order
            self.label = label
            state = Mutex(State(handler: handler))
        }

        /// False after ``invalidate()`` or the only call. The corresponding CF function is `CFRunLoopObserverIsValid`.
        public var isValid: Bool { !crl_is_forked() && state.withLock { $0.handler != nil } }

        /// Removes the observer from its loop for good. The corresponding CF function is `CFRunLoopObserverInvalidate`.
        public func invalidate() { Item.observer(self).invalidate { state.withLock { $0.handler.take() } } }

        var callCount: Int { state.withLock { $0.callCount } }

        func tell(_ activity: Activity, in loop: ThreadRunLoop) {
            let handler = state.withLock { state -> Handler? in
                guard !state.isTold else { return nil }
                if state.handler != nil { state.isTold = true }
                state.callCount += 1
                return state.handler
            }
            guard let handler else { return }
            loop.calling(Callout(.observer, self)) { handler(self, activity) }
            if !repeats { invalidate() }
            state.withLock { $0.isTold = false }
        }
    }
}

extension ThreadRunLoop {
    /// Points of a run at which observers are called. The corresponding CF type is `CFRunLoopActivity`, of equal bits.
    public struct Activity: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: UInt32

        /// The points of these bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        /// A run begins.
        public static let entry = Activity(rawValue: 1 << 0)
        /// A pass begins; the loop is about to check its timers.
        public static let beforeTimers = Activity(rawValue: 1 << 1)
        /// The loop is about to check its sources.
        public static let beforeSources = Activity(rawValue: 1 << 2)
        /// The loop is about to sleep.
        public static let beforeWaiting = Activity(rawValue: 1 << 5)
        /// The loop has woken up, and has not yet served the event that woke it.
        public static let afterWaiting = Activity(rawValue: 1 << 6)
        /// A run ends.
        public static let exit = Activity(rawValue: 1 << 7)
        /// All points.
        public static let all = Activity(rawValue: 0x0FFF_FFFF)
    }
}
