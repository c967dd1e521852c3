import CRunLoopShims
import Synchronization

/// A monitor's watch over a loop. The loop ends the waits of the monitor's thread when the monitor asks for that.
final class StallWatch: PassWatch {
    private struct State {
        var isStopped = false
        var wait: Latch?
    }

    private let loop: ThreadRunLoop
    private let threshold: Duration
    private let handler: StallMonitor.Handler
    private let state = Mutex(State())

    /// The tick of the clock for the starts of passes. A start may be this much too early.
    private static let tick = Duration.nanoseconds(Int64(clamping: crl_coarse_tick()))

    init(_ loop: ThreadRunLoop, threshold: Duration, handler: @escaping StallMonitor.Handler) {
        self.loop = loop
        self.threshold = max(threshold, Self.tick)
        self.handler = handler
        loop.state.withLock { state in
            // A pass that was not watched to its end has left its start.
            if !state.isWatched { loop.progress.start.store(0, ordering: .relaxed) }
            state.watches.append(self)
            loop.progress.set(.monitors, true)
        }
    }

    func stop() {
        loop.state.withLock { state in
            state.watches.removeAll { $0 === self }
            loop.progress.set(.monitors, state.isWatched)
        }
        let wait = state.withLock { state in
            state.isStopped = true
            return state.wait.take()
        }
        wait?.open()
    }

    func loopGoesOn() { state.withLock { $0.wait.take() }?.open() }

    /// Checks the loop, and reports stalls until the watch is stopped. Called on the monitor's thread.
    func run() {
        crl_thread_set_name("stall monitor")
        var (stall, next): ((report: StallMonitor.Stall, start: MonotonicInstant)?, Duration) = (nil, threshold)
        while !isStopped {
            let start = loop.progress.passStart
            if var over = stall, over.start != start {
                (stall, next) = (nil, threshold)
                over.report.duration = over.start.duration(to: .now)
                over.report.isOver = true
                report(over.report)
            }
            guard let start else {
                wait(until: .distantFuture, asksLoop: true)
                // A loop that wakes up often is checked once per threshold.
                wait(until: .now + threshold)
                continue
            }
            let duration = start.duration(to: .now)
            if duration > next + Self.tick {
                let callout = loop.progress.currentCallout
                let seen = StallMonitor.Stall(
                    mode: loop.currentMode, callout: callout.kind, item: loop.name(of: callout),
                    since: start.continuous, duration: duration, isOver: false)
                (stall, next) = ((seen, start), duration * 2)
                report(seen)
            }
            wait(until: start + next + Self.tick + .milliseconds(1), asksLoop: stall != nil, since: start)
        }
    }

    private var isStopped: Bool { state.withLock { $0.isStopped } }

    private func report(_ stall: StallMonitor.Stall) { if !isStopped { handler(stall) } }

    /// Waits until the deadline, or until the watch is stopped. With `asksLoop`, the loop also ends the wait when it
    /// goes on from the pass with this start, or, without a start, from a sleep.
    private func wait(until deadline: MonotonicInstant, asksLoop: Bool = false, since start: MonotonicInstant? = nil) {
        let latch = Latch()
        let isStopped = state.withLock { state in
            state.wait = latch
            return state.isStopped
        }
        if isStopped { return }
        let asking = asksLoop ? 1 : 0
        // Counted first, because the loop may go on at any time.
        loop.progress.waitingWatches.add(asking, ordering: .sequentiallyConsistent)
        if !asksLoop || loop.progress.passStart == start { _ = latch.wait(until: deadline) }
        loop.progress.waitingWatches.subtract(asking, ordering: .sequentiallyConsistent)
    }
}

extension CalloutKind? {
    var text: String { self?.rawValue ?? "between callouts" }
}

extension ThreadRunLoop {
    /// The callout's item, if there is one and it is still in the loop.
    func name(of callout: Callout) -> String? {
        state.withLock { state in
            state.modes.lazy.compactMap { $0.item(of: callout) }.first?.name
        }
    }
}
