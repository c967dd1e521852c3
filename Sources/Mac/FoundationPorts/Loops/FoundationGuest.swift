import CoreFoundation
import CoreFoundationPorts
import Foundation
import RunLoops

extension ThreadRunLoop {
    /// Serves Foundation's `RunLoop` of the loop's thread whenever this loop sleeps: its timers, ports, performs, and
    /// what else Foundation schedules in it, such as `readInBackgroundAndNotify` and connections.
    ///
    /// A run of a mode serves Foundation's mode of the same name. Foundation's sources count as handled sources, as its
    /// loop counts them. When a callout runs `RunLoop.current`, that run serves this loop's mode of the same name, too,
    /// if this loop has ever run it.
    ///
    /// `CFRunLoopStop` in a callout of Foundation's stops this loop, too. As in CFRunLoop, a stop that comes together
    /// with a source gives a run that returns after a handled source the result of the source; an event of this loop's
    /// own is one, too. While this loop is busy and a source of Foundation's is ready in every pass, a stop may be
    /// lost. From a callout of this loop's own, or from another thread, call `ThreadRunLoop.stop()`: Foundation's loop
    /// may not run. Foundation's observers see a sleep or two in each turn, also while this loop is busy.
    ///
    /// It makes Foundation's loop the `ThreadRunLoop.guest`. Any thread may call it; only the loop's own thread
    /// may set the guest to nil, which ends it.
    public func serveFoundation() {
        let guest = FoundationGuest()
        self.guest = { turn in guest.serve(turn) }
    }
}

/// Foundation's loop of one thread.
private final class FoundationGuest: @unchecked Sendable {
    // Sound: used on the thread of the loop alone.
    private var modes: [ThreadRunLoop.Mode: GuestMode] = [:]

    func serve(_ turn: ThreadRunLoop.GuestTurn) -> Bool {
        guard let loop = CFRunLoopGetCurrent() else { return false }
        let mode = modes[turn.mode] ?? GuestMode(turn, loop)
        modes[turn.mode] = mode
        return mode.serve(turn)
    }
}

/// One mode of Foundation's loop. CFRunLoop waits for the edges of our mode's descriptor, and an observer looks for
/// work that is there already before each sleep.
private final class GuestMode {
    /// A run of the mode by Foundation.
    private struct Run {
        /// Serves our loop in the run; nil in a turn, in which our loop sleeps.
        let driven: ThreadRunLoop.DrivenRun?
        /// The passes since the run began, or since its last sleep, which counts as one.
        var passes = 0
        var isAsleep = false
        /// False while a callout of this pass may already have stopped the run.
        var mayEnd = false
    }

    private let loop: CFRunLoop
    private let mode: CFRunLoopMode
    private var turn: ThreadRunLoop.GuestTurn
    private var sources: [CFRunLoopSource] = []
    private var timer: CFRunLoopTimer?
    /// Ends a sleep of CFRunLoop's after the sources that are ready already.
    private let bell = try? EventDescriptor()
    private var isRinging = false
    /// CFRunLoop does not call an observer inside that observer's callout: a run in there has the next one.
    private var observers: [CFRunLoopObserver?] = []
    private var observersInCallouts = 0
    private var runs: [Run] = []
    /// Which run is the present turn's.
    private var depthOfTurn = -1
    private var (isOurEvent, isOurStop) = (false, false)
    /// Whether the turn's timer has fired, which may be a moment before the deadline.
    private var isTimeUp = false

    init(_ turn: ThreadRunLoop.GuestTurn, _ loop: CFRunLoop) {
        (self.turn, self.loop) = (turn, loop)
        mode = RunLoop.Mode(turn.mode).cfMode
        sources = [.make(turn.descriptor) { [unowned self] in perform() }]
        if let bell { sources.append(.make(bell.descriptor) { [unowned self] in bellRang() }) }
        for source in sources { CFRunLoopAddSource(loop, source, mode) }
        // A timer ends the turn, because a CFRunLoop run with a timeout would cost a thread now and then.
        timer = CFRunLoopTimerCreateWithHandler(nil, Self.never, Self.never, 0, 0) { [unowned self] _ in
            isTimeUp = true
        }
        CFRunLoopAddTimer(loop, timer, mode)
        addObserver()
    }

    private func addObserver() {
        let activities: [CFRunLoopActivity] = [.entry, .beforeTimers, .beforeWaiting, .exit]
        let number = observers.count
        let observer = CFRunLoopObserverCreateWithHandler(
            nil, activities.reduce(0) { $0 | CFOptionFlags($1.rawValue) }, true, .max
        ) { [unowned self] _, activity in observe(activity, number) }
        observers.append(observer)
        CFRunLoopAddObserver(loop, observer, mode)
    }

    deinit {
        for source in sources { CFRunLoopSourceInvalidate(source) }
        for observer in observers { CFRunLoopObserverInvalidate(observer) }
        CFRunLoopTimerInvalidate(timer)
    }

    /// Longer than CFRunLoop sets a timer for, in seconds.
    private static let never = 1e10

    func serve(_ turn: ThreadRunLoop.GuestTurn) -> Bool {
        let outer = (self.turn, depthOfTurn, isOurEvent, isOurStop)
        (self.turn, depthOfTurn, isOurEvent, isOurStop) = (turn, runs.count + 1, false, false)
        isTimeUp = false
        defer {
            (self.turn, depthOfTurn, isOurEvent, isOurStop) = outer
            if isRinging { bell?.clear() }
            isRinging = false
            // The timer may have been set for this turn in place of an outer turn's time. The outer turn ends, and the
            // next one sets the timer again.
            isTimeUp = true
        }
        if let deadline = turn.deadline, deadline != .distantPast {
            let left = ContinuousClock.now.duration(to: deadline) / .seconds(1)
            CFRunLoopTimerSetNextFireDate(timer, CFAbsoluteTimeGetCurrent() + left)
        }
        // With a time, CFRunLoop's result would hide a stop.
        switch CFRunLoopRunInMode(mode, Self.never, turn.endsAfterSource) {
        case .handledSource: return !isOurEvent
        case .stopped:
            if !isOurStop { turn.loop.stop() }
            return false
        default: return false
        }
    }

    private func perform() {
        if runs.count == depthOfTurn { endTurn() } else if let run = runs.last?.driven { dispatch(run) }
    }

    private func bellRang() {
        isRinging = false
        if runs.count == depthOfTurn { endTurn() }
    }

    /// Ends the turn, unless a callout may have stopped CFRunLoop in this pass: then the next pass shows that none has.
    private func endTurn() {
        isOurEvent = runs[runs.count - 1].isAsleep
        if runs[runs.count - 1].mayEnd { stopTurn() }
    }

    private func stopTurn() {
        isOurStop = true
        CFRunLoopStop(loop)
    }

    private func observe(_ activity: CFRunLoopActivity, _ number: Int) {
        guard number == observersInCallouts else { return }
        observersInCallouts += 1
        defer { observersInCallouts -= 1 }
        if observers.count == observersInCallouts { addObserver() }
        // A run may have begun before it was observed.
        if runs.isEmpty, activity != .entry, activity != .exit { runBegins() }
        switch activity {
        case .entry:
            runBegins()
        case .exit:
            runs.last?.driven?.stop()
            _ = runs.popLast()
        case .beforeTimers:
            if runs.count == depthOfTurn { passBegins() }
        default:
            if runs.count == depthOfTurn { passSleeps() } else if let run = runs.last?.driven { serve(run) }
        }
    }

    private func runBegins() {
        let isTurn = runs.count + 1 == depthOfTurn
        runs.append(Run(driven: isTurn ? nil : try? ThreadRunLoop.DrivenRun(mode: turn.mode)))
    }

    private var isTurnOver: Bool { isTimeUp || turn.isOver || turn.deadline?.hasPassed == true }

    private func passBegins() {
        let index = runs.count - 1
        runs[index].passes += 1
        (runs[index].isAsleep, runs[index].mayEnd) = (false, false)
        // A source that is always ready would keep the run from sleeping.
        if runs[index].passes > 8, isTurnOver { stopTurn() }
    }

    private func passSleeps() {
        let (index, isOver) = (runs.count - 1, isTurnOver)
        runs[index].isAsleep = true
        // No source was handled in this pass. In the run's first pass, a block may have stopped the run. A source that
        // becomes ready from here on is reported after the stop.
        runs[index].mayEnd = !isOver || runs[index].passes > 1
        runs[index].passes = 1
        guard isOver else { return }
        guard let bell else { return stopTurn() }
        if !isRinging { bell.raise() }
        isRinging = true
    }

    private func serve(_ run: ThreadRunLoop.DrivenRun) {
        var mayHaveCalled = false
        // Edges that came before this look do not come again.
        for _ in 0..<64 {
            mayHaveCalled = mayHaveCalled || !run.isAsleep
            guard run.prepare() == .zero else { break }
            dispatch(run)
        }
        // A run inside a callout takes the wake-ups that are meant for this one.
        if mayHaveCalled || !run.isAsleep { CFRunLoopWakeUp(loop) }
    }

    private func dispatch(_ run: ThreadRunLoop.DrivenRun) { if run.dispatch() != nil { CFRunLoopStop(loop) } }
}

extension RunLoop.Mode {
    /// Foundation's mode of the same name as ours.
    fileprivate init(_ mode: ThreadRunLoop.Mode) {
        self = mode == .default ? .default : RunLoop.Mode(mode.rawValue)
    }
}
