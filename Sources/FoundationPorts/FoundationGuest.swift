import CoreFoundation
import Foundation
import RunLoops

extension ThreadRunLoop {
    /// Serves Foundation's `RunLoop` of the loop's thread whenever this loop sleeps: its timers, ports, performs, and what
    /// else Foundation schedules in it, such as `readInBackgroundAndNotify` and connections.
    ///
    /// A run of a mode serves Foundation's mode of the same name. Foundation's sources count as handled sources, as its
    /// loop counts them. `CFRunLoopStop` in a callout of Foundation's stops this loop, too, when the callout comes
    /// while this loop sleeps; while it is busy, a stop may be lost: call `ThreadRunLoop.stop()`. As in CFRunLoop, a
    /// stop in a source's callout gives a run that returns after a handled source the result of the source. When a
    /// callout of Foundation's runs `RunLoop.current`, that run serves this loop's mode of the same name, too, if this
    /// loop has ever run it, and is not in a callout itself.
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

/// One mode of Foundation's loop. CFRunLoop waits for the edges of our mode's descriptor, and an observer looks for work
/// that is there already before each sleep.
private final class GuestMode {
    private let loop: CFRunLoop
    private let mode: CFRunLoopMode
    private var turn: ThreadRunLoop.GuestTurn
    private var (source, observer, timer): (CFRunLoopSource?, CFRunLoopObserver?, CFRunLoopTimer?)
    /// How many of Foundation's runs of the mode are in progress, and which of them is the present turn's.
    private var (depth, depthOfTurn) = (0, 0)
    /// What serves our loop in Foundation's other runs.
    private var driven: [Int: ThreadRunLoop.DrivenRun] = [:]
    private var (isOurEvent, isOurStop) = (false, false)

    init(_ turn: ThreadRunLoop.GuestTurn, _ loop: CFRunLoop) {
        (self.turn, self.loop) = (turn, loop)
        mode = RunLoop.Mode(turn.mode).cfMode
        let this = Unmanaged.passUnretained(self).toOpaque()
        var context = CFRunLoopSourceContext1()
        context.version = 1
        context.info = this
        context.getPort = { info in
            info.map { Unmanaged<GuestMode>.fromOpaque($0).takeUnretainedValue().turn.descriptor } ?? -1
        }
        context.perform = { info in
            if let info { Unmanaged<GuestMode>.fromOpaque(info).takeUnretainedValue().perform() }
        }
        source = .make(context)
        let activities =
            CFRunLoopActivity.entry.rawValue | CFRunLoopActivity.beforeWaiting.rawValue
            | CFRunLoopActivity.exit.rawValue
        observer = CFRunLoopObserverCreateWithHandler(nil, CFOptionFlags(activities), true, .max) {
            [unowned self] _, activity in observe(activity)
        }
        // A run of CFRunLoop's with a time of its own would cost a thread now and then.
        timer = CFRunLoopTimerCreateWithHandler(nil, Self.never, Self.never, 0, 0) { [unowned self] _ in
            if depth == depthOfTurn { endTurn() }
        }
        CFRunLoopAddSource(loop, source, mode)
        CFRunLoopAddObserver(loop, observer, mode)
        CFRunLoopAddTimer(loop, timer, mode)
    }

    deinit {
        CFRunLoopSourceInvalidate(source)
        CFRunLoopObserverInvalidate(observer)
        CFRunLoopTimerInvalidate(timer)
    }

    /// Longer than CFRunLoop sets a timer for, in seconds.
    private static let never = 1e10

    func serve(_ turn: ThreadRunLoop.GuestTurn) -> Bool {
        let outer = (self.turn, depthOfTurn, isOurEvent, isOurStop)
        (self.turn, depthOfTurn, isOurEvent, isOurStop) = (turn, depth + 1, false, false)
        defer { (self.turn, depthOfTurn, isOurEvent, isOurStop) = outer }
        if turn.deadline != .distantPast, turn.deadline != .distantFuture {
            let left = (turn.deadline - .now) / .seconds(1)
            CFRunLoopTimerSetNextFireDate(timer, CFAbsoluteTimeGetCurrent() + left)
        }
        let mayBlock = turn.deadline != .distantPast
        switch CFRunLoopRunInMode(mode, mayBlock ? Self.never : 0, turn.endsAfterSource || !mayBlock) {
        case .handledSource: return !isOurEvent
        case .stopped:
            if !isOurStop { turn.loop.stop() }
            return false
        default: return false
        }
    }

    private func perform() {
        guard depth == depthOfTurn else { return dispatch(driven[depth]) }
        isOurEvent = true
        endTurn()
    }

    private func endTurn() {
        isOurStop = true
        CFRunLoopStop(loop)
    }

    private func observe(_ activity: CFRunLoopActivity) {
        switch activity {
        case .entry:
            depth += 1
            if depth != depthOfTurn { driven[depth] = try? ThreadRunLoop.DrivenRun(mode: turn.mode) }
        case .exit:
            driven.removeValue(forKey: depth)?.end()
            depth -= 1
        default:
            if depth == depthOfTurn {
                if turn.isOver || turn.deadline.hasPassed { endTurn() }
            } else if let run = driven[depth], !run.isInCallout {
                // In a callout of its own, CFRunLoop does not call this observer for a nested run.
                // Edges that came before this look do not come again.
                for _ in 0..<64 {
                    guard run.prepare() == .distantPast else { return }
                    dispatch(run)
                }
                CFRunLoopWakeUp(loop)
            }
        }
    }

    private func dispatch(_ run: ThreadRunLoop.DrivenRun?) {
        if run?.isInCallout == false, run?.dispatch() != nil { CFRunLoopStop(loop) }
    }
}

extension RunLoop.Mode {
    /// Foundation's mode of the same name as ours.
    fileprivate init(_ mode: ThreadRunLoop.Mode) {
        self = mode == .default ? .default : RunLoop.Mode(mode.rawValue)
    }
}
