import CRunLoopShims
import Synchronization

/// The state that a monitor and its loop share.
final class StallWatch: Sendable {
    private enum Phase {
        /// The monitor's timer has the next check.
        case checking
        /// The loop counts the watch as waiting, and notifies it when the loop goes on.
        case waiting
        case stopped
    }

    private struct State {
        var phase = Phase.checking
        var timer: ThreadRunLoop.Timer?
        /// The stall in progress: its last report, the duration of the next, and the end when it was noticed.
        var stall: (report: StallMonitor.Stall, next: Duration, end: MonotonicInstant?)?
    }

    private let loop: ThreadRunLoop
    private let threshold: Duration
    private let handler: StallMonitor.Handler
    private let state = Mutex(State())

    /// The tick of the clock for the starts of passes: a start may be this much too early.
    static let tick = Duration.nanoseconds(Int64(clamping: crl_coarse_tick()))

    init(_ loop: ThreadRunLoop, threshold: Duration, monitor: ThreadRunLoop, handler: @escaping StallMonitor.Handler) {
        self.loop = loop
        self.threshold = threshold
        self.handler = handler
        loop.state.withLock { state in
            // A pass that was not watched to its end has left its start.
            if state.watches.isEmpty { loop.progress.start.store(0, ordering: .relaxed) }
            state.watches.append(self)
            loop.progress.isWatched.store(true, ordering: .sequentiallyConsistent)
        }
        let check = ThreadRunLoop.Timer(at: .now, every: .seconds(1 << 30)) { [weak self] _ in self?.check() }
        state.withLock { $0.timer = check }
        monitor.add(check)
    }

    func stop() {
        if state.withLock({ exchange(&$0.phase, with: .stopped) }) == .waiting {
            loop.progress.waitingWatches.subtract(1, ordering: .sequentiallyConsistent)
        }
        loop.state.withLock { state in
            state.watches.removeAll { $0 === self }
            if state.watches.isEmpty { loop.progress.isWatched.store(false, ordering: .relaxed) }
        }
        state.withLock { $0.timer }?.invalidate()
    }

    /// Called by the loop's thread at the start and the end of a pass.
    func loopGoesOn() {
        let start = loop.progress.passStart
        let date = state.withLock { state -> MonotonicInstant? in
            guard state.phase == .waiting, state.stall != nil || start != nil else { return nil }
            state.phase = .checking
            state.stall?.end = .now
            return state.stall == nil ? (start ?? .now) + threshold : .now
        }
        guard let date else { return }
        loop.progress.waitingWatches.subtract(1, ordering: .sequentiallyConsistent)
        schedule(date)
    }

    private func schedule(_ date: MonotonicInstant) { state.withLock { $0.timer }?.nextFireDate = date }

    /// Checks the loop, reports, and schedules the next check: on the monitor's thread.
    private func check() {
        reportEnd()
        guard let start = loop.progress.passStart else { return waitForLoop() }
        let duration = start.duration(to: .now)
        let next = state.withLock { $0.stall?.next } ?? threshold
        if duration > next + Self.tick {
            let callout = loop.progress.currentCallout
            let stall = StallMonitor.Stall(
                mode: loop.currentMode, phase: .init(callout.kind), item: loop.name(of: callout), since: start,
                duration: duration, isOver: false)
            state.withLock { $0.stall = (stall, duration * 2, nil) }
            tell(stall)
            schedule(start + duration * 2)
            return waitForLoop()
        }
        schedule(start + next + Self.tick + .milliseconds(1))
    }

    /// Waits until the loop goes on. If the loop has gone on already, schedules a check at once.
    private func waitForLoop() {
        // Counted first: the loop may end the wait, and subtract, at any time.
        loop.progress.waitingWatches.add(1, ordering: .sequentiallyConsistent)
        let waits = state.withLock { state in
            guard state.phase == .checking else { return false }
            state.phase = .waiting
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
        state.withLock { $0.stall = nil }
        var report = former.report
        report.duration = report.since.duration(to: former.end ?? .now)
        report.isOver = true
        tell(report)
    }

    private func tell(_ stall: StallMonitor.Stall) { if !state.withLock({ $0.phase == .stopped }) { handler(stall) } }
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
    /// The callout's item, if there is one and it is still in the loop.
    fileprivate func name(of callout: Callout) -> String? {
        state.withLock { state in
            for mode in state.modes {
                if let item = mode.items.first(where: { callout.isOf($0.id) }) { return item.name }
            }
            return nil
        }
    }
}
