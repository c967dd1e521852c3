import CRunLoopShims
import Synchronization

/// Calls a handler when a run of a loop comes to certain points. The corresponding CF type is `CFRunLoopObserver`.
/// An observer belongs to one loop at a time, until no mode of that loop has it. Any thread may call its methods.
public final class RunLoopObserver: Sendable {
    /// Called on the loop's thread with the point that the run has come to.
    public typealias Handler = @Sendable (RunLoopObserver, RunLoopActivity) -> Void

    /// The points at which the handler is called. The corresponding CF function is `CFRunLoopObserverGetActivities`.
    public let activities: RunLoopActivity
    /// Whether the handler is called more than once. The corresponding CF function is `CFRunLoopObserverDoesRepeat`.
    public let repeats: Bool
    /// Observers of lower order are called first; observers of equal order in the order they were added.
    /// The corresponding CF function is `CFRunLoopObserverGetOrder`.
    public let order: Int
    /// The item's name in dumps and stall reports. The corresponding CF callback is `copyDescription`.
    public let label: String?

    private struct State {
        var handler: Handler?
        var callCount = 0
        var isCalled = false
    }

    private let state: Mutex<State>
    let membership = LoopMembership()

    /// Makes an observer. The corresponding CF function is `CFRunLoopObserverCreateWithHandler`.
    public init(
        _ activities: RunLoopActivity, repeats: Bool = true, order: Int = 0, label: String? = nil,
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

    /// Begins a call, and returns its handler; nil when the observer is invalid, or inside its own call.
    func beginCall() -> Handler? {
        state.withLock { state in
            guard !state.isCalled else { return nil }
            if state.handler != nil { state.isCalled = true }
            state.callCount += 1
            return state.handler
        }
    }

    func endCall() {
        if !repeats { invalidate() }
        state.withLock { $0.isCalled = false }
    }
}

/// Points of a run at which observers are called. The corresponding CF type is `CFRunLoopActivity`, of equal bits.
public struct RunLoopActivity: OptionSet, Sendable, Hashable {
    /// The bits.
    public let rawValue: UInt32

    /// The points of these bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// A run begins.
    public static let entry = RunLoopActivity(rawValue: 1 << 0)
    /// A pass begins; the loop is about to check its timers.
    public static let beforeTimers = RunLoopActivity(rawValue: 1 << 1)
    /// The loop is about to check its sources.
    public static let beforeSources = RunLoopActivity(rawValue: 1 << 2)
    /// The loop is about to sleep.
    public static let beforeWaiting = RunLoopActivity(rawValue: 1 << 5)
    /// The loop has woken up, and has not yet served the event that woke it.
    public static let afterWaiting = RunLoopActivity(rawValue: 1 << 6)
    /// A run ends.
    public static let exit = RunLoopActivity(rawValue: 1 << 7)
    /// All points.
    public static let all = RunLoopActivity(rawValue: 0x0FFF_FFFF)
}
