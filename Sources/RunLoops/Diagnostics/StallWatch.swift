import CRunLoopShims
import Synchronization

/// A monitor's view of its loop; the loop's view of its monitor.
final class StallWatch: Sendable {
    private struct State {
        var isStopped = false
        /// The stall that is going on: when its pass began, when it is reported again, when it was seen to be over.
        var stall: (report: StallMonitor.Stall, next: Duration, end: MonotonicInstant?)?
        /// Whether the loop counts it among those that it tells when it goes on.
        var isWaiting = false
    }

    private let loop: ThreadRunLoop
    private let threshold: Duration
    private let monitor: ThreadRunLoop
    private let handler: StallMonitor.Handler
    private let state = Mutex(State())
    private let timer = Mutex<ThreadRunLoop.Timer?>(nil)

    /// By how much a pass's beginning may be told too early: the tick of the clock that it is read from.
    static let tick = Duration.nanoseconds(Int64(clamping: crl_coarse_tick()))

    init(
        _ loop: ThreadRunLoop, threshold: Duration, monitor: ThreadRunLoop, handler: @escaping StallMonitor.Handler
    ) {
        self.loop = loop
        self.threshold = threshold
        self.monitor = monitor
        self.handler = handler
    }

    func start() {
        loop.state.withLock { state in
            // What a pass that nobody watched to its end has left.
            if state.watches.isEmpty { loop.progress.passEnds() }
            state.watches.append(self)
            loop.progress.isWatched.store(true, ordering: .sequentiallyConsistent)
        }
        let looking = ThreadRunLoop.Timer(at: .now, every: .seconds(1 << 30)) { [weak self] _ in self?.look() }
        timer.withLock { $0 = looking }
        monitor.add(looking)
    }

    func stop() {
        let wasWaiting = state.withLock { state in
            state.isStopped = true
            defer { state.isWaiting = false }
            return state.isWaiting
        }
        if wasWaiting { loop.progress.waitingWatches.subtract(1, ordering: .sequentiallyConsistent) }
        loop.state.withLock { state in
            state.watches.removeAll { $0 === self }
            if state.watches.isEmpty { loop.progress.isWatched.store(false, ordering: .relaxed) }
        }
        timer.withLock { $0 }?.invalidate()
    }

    /// The loop's thread has come to the end of a pass, or to the beginning of one.
    func loopGoesOn() {
        let start = loop.progress.passStart
        let mayLook = state.withLock { state in
            guard state.isWaiting, state.stall != nil || start != nil else { return false }
            state.isWaiting = false
            state.stall?.end = .now
            return true
        }
        guard mayLook else { return }
        loop.progress.waitingWatches.subtract(1, ordering: .sequentiallyConsistent)
        let isOver = state.withLock { $0.stall != nil }
        schedule(isOver ? .now : (start ?? .now) + threshold)
    }

    private func schedule(_ date: MonotonicInstant) { timer.withLock { $0 }?.nextFireDate = date }

    /// Looks at the loop, reports, and says when to look again: on the monitor's thread.
    private func look() {
        reportEnd()
        guard let start = loop.progress.passStart else { return waitForLoop() }
        let duration = start.duration(to: .now)
        let next = state.withLock { $0.stall?.next } ?? threshold
        if duration > next + Self.tick {
            let stall = report(since: start, duration)
            state.withLock { $0.stall = (stall, duration * 2, nil) }
            tell(stall)
            schedule(start + duration * 2)
            return waitForLoop()
        }
        schedule(start + next + Self.tick + .milliseconds(1))
    }

    /// Has the loop tell when it goes on. It may have gone on already: then the look is not put off.
    private func waitForLoop() {
        // Counted first: the loop may take it off as soon as it waits.
        loop.progress.waitingWatches.add(1, ordering: .sequentiallyConsistent)
        let waits = state.withLock { state in
            guard !state.isStopped, !state.isWaiting else { return false }
            state.isWaiting = true
            return true
        }
        guard waits else {
            loop.progress.waitingWatches.subtract(1, ordering: .sequentiallyConsistent)
            return
        }
        let start = loop.progress.passStart
        if start != state.withLock({ $0.stall?.report.since }) { loopGoesOn() }
    }

    private func reportEnd() {
        let (former, start) = (state.withLock { $0.stall }, loop.progress.passStart)
        guard let former, former.end != nil || former.report.since != start else { return }
        let report = former.report
        state.withLock { $0.stall = nil }
        tell(
            StallMonitor.Stall(
                mode: report.mode, phase: report.phase, item: report.item, since: report.since,
                duration: report.since.duration(to: former.end ?? .now), isOver: true))
    }

    private func tell(_ stall: StallMonitor.Stall) {
        if !state.withLock({ $0.isStopped }) { handler(stall) }
    }

    private func report(since start: MonotonicInstant, _ duration: Duration) -> StallMonitor.Stall {
        let callout = loop.progress.currentCallout
        return StallMonitor.Stall(
            mode: loop.currentMode, phase: .init(callout.kind), item: loop.name(of: callout), since: start,
            duration: duration, isOver: false)
    }
}

extension StallMonitor.Stall.Phase {
    fileprivate init(_ kind: Callout.Kind) {
        self =
            switch kind {
            case .none: .betweenCallouts
            case .block: .block
            case .job: .task
            case .mainQueue: .mainQueue
            case .source0, .source1: .source
            case .timer: .timer
            case .observer: .observer
            }
    }
}

extension ThreadRunLoop {
    /// The item that is called out to, if it is one and still in the loop.
    fileprivate func name(of callout: Callout) -> String? {
        state.withLock { state in
            for mode in state.modes {
                if let item = mode.items.first(where: { callout.isOf($0.id) }) { return item.name }
            }
            return nil
        }
    }
}
