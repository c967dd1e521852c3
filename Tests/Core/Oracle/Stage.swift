import RunLoops

/// A run loop that a script plays on: Foundation's or ours. Used on the loop's own thread, or while that one waits.
package protocol Stage: AnyObject, Sendable {
    typealias Action = @Sendable () -> Void

    var trace: Trace { get }

    /// The calling thread's loop, with the same items and the same trace.
    func sibling() -> any Stage

    func makeSource0(_ name: String, order: Int, moved: @escaping @Sendable (Move) -> Void, perform: @escaping Action)
    /// A version 1 source with an eventfd of its own, lowered when it is performed.
    func makePort(_ name: String, perform: @escaping Action)
    func makeTimer(_ name: String, milliseconds: Int, every: Int, fire: @escaping Action)
    func makeObserver(
        _ name: String, _ activities: ThreadRunLoop.Activity, repeats: Bool, order: Int,
        tell: @escaping @Sendable (ThreadRunLoop.Activity) -> Void)

    func add(_ name: String, to mode: String)
    func remove(_ name: String, from mode: String)
    func contains(_ name: String, in mode: String) -> Bool
    func isValid(_ name: String) -> Bool
    func invalidate(_ name: String)
    func signal(_ name: String)
    func raise(_ name: String)
    func redate(_ name: String, milliseconds: Int)

    func block(in modes: [String], _ body: @escaping Action)
    /// Has a block performed from another thread, and the loop woken for it.
    func blockAndWake(in modes: [String], _ body: @escaping Action)
    func addCommonMode(_ mode: String)
    var modes: [String] { get }
    var currentMode: String? { get }
    var hasTimerFireDate: Bool { get }
    var isWaiting: Bool { get }
    func stop()
    func wakeUp()
    func runOnce(_ mode: String, seconds: Double, returnAfterSourceHandled: Bool) -> String
}

/// What a source of version 0 is told of.
package enum Move: Sendable, CustomStringConvertible {
    case joins(String)
    case leaves(String)

    package var description: String { "\(verb) \(mode)" }

    package var verb: String {
        switch self {
        case .joins: "joins"
        case .leaves: "leaves"
        }
    }

    package var mode: String {
        switch self {
        case .joins(let mode), .leaves(let mode): mode
        }
    }
}

extension Stage {
    package func makeSource0(_ name: String, order: Int, perform: @escaping Action) {
        let trace = trace
        makeSource0(name, order: order, moved: { trace("\(name) \($0)") }, perform: perform)
    }

    package func source0(_ name: String, order: Int = 0, in mode: String = "default", _ action: @escaping Action = {}) {
        let trace = trace
        makeSource0(name, order: order) {
            trace(name)
            action()
        }
        add(name, to: mode)
    }

    package func port(_ name: String, in mode: String = "default", _ action: @escaping Action = {}) {
        let trace = trace
        makePort(name) {
            trace(name)
            action()
        }
        add(name, to: mode)
    }

    package func timer(
        _ name: String, _ milliseconds: Int, every: Int = 0, in mode: String = "default",
        _ action: @escaping Action = {}
    ) {
        let trace = trace
        makeTimer(name, milliseconds: milliseconds, every: every) {
            trace(name)
            action()
        }
        add(name, to: mode)
    }

    package func observer(
        _ name: String, _ activities: ThreadRunLoop.Activity, repeats: Bool = true, order: Int = 0,
        in mode: String = "default", _ action: @escaping Action = {}
    ) {
        let trace = trace
        makeObserver(name, activities, repeats: repeats, order: order) { activity in
            trace("\(name) \(activity.label)")
            action()
        }
        add(name, to: mode)
    }

    /// Has every notification of the mode in the trace.
    package func watch(_ modes: String...) {
        for mode in modes { observer("~" + mode, .all, order: -1000, in: mode) }
    }

    package func block(_ name: String, in modes: [String] = ["default"], _ action: @escaping Action = {}) {
        let trace = trace
        block(in: modes) {
            trace(name)
            action()
        }
    }

    /// Plays one run, with its result in the trace.
    package func run(_ mode: String = "default", _ seconds: Double = 0, returning: Bool = false) {
        trace("run \(mode)")
        trace("= " + runOnce(mode, seconds: seconds, returnAfterSourceHandled: returning))
    }
}

extension ThreadRunLoop.Activity {
    var labels: String {
        self == .all
            ? "all" : (0..<8).map { Self(rawValue: 1 << $0) }.filter(contains).map(\.label).joined(separator: ", ")
    }

    package var label: String {
        switch self {
        case .entry: "entry"
        case .beforeTimers: "timers"
        case .beforeSources: "sources"
        case .beforeWaiting: "waiting"
        case .afterWaiting: "woken"
        case .exit: "exit"
        default: "\(rawValue)"
        }
    }
}
