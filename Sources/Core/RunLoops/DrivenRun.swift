import CRunLoopShims

extension ThreadRunLoop {
    /// A run of the calling thread's loop that another event loop drives, such as epoll's, GLib's or SwiftNIO's.
    ///
    /// The other loop watches ``descriptor``, and calls two methods in each of its rounds, around its own wait:
    ///
    ///     func run(_ round: (_ descriptor: Int32, _ timeout: Duration?) -> Void) throws {
    ///         let run = try ThreadRunLoop.DrivenRun()
    ///         repeat {
    ///             // The other loop waits for this descriptor and its own, until the timeout, and serves its own.
    ///             round(run.descriptor, run.prepare())
    ///         } while run.dispatch() == nil
    ///     }
    ///
    /// A pass is the same as in an ordinary run, in the same order: ``prepare()`` is the part before the sleep, and
    /// ``dispatch()`` the part after it. While only the other loop has work, the pass sleeps on. The descriptor also
    /// reports timers, wake-ups by other threads, and the changes by the other loop's callbacks: blocks, sources,
    /// timers, a stop.
    ///
    /// The run ends with ``ThreadRunLoop/stop()`` or ``stop()`` of the run. In contrast to an ordinary run, the last item does not
    /// end it. Runs may nest: an ordinary run or a driven one may begin inside a callback of the other loop or inside a
    /// callout of this run, and ends first. The loop does not poll meanwhile (``ThreadRunLoop/pollingTime``).
    ///
    /// Only the loop's own thread may use the run. There is no CF function for this.
    public final class DrivenRun {
        private enum Phase {
            /// The next pass has not begun.
            case between
            /// The pass does not sleep.
            case awake(Pause)
            case asleep
            case stopped
            case over(RunResult)
        }

        /// The loop of the thread that has made the run.
        public let loop: ThreadRunLoop
        /// An epoll descriptor: readable while the run has something to do after a ``prepare()``. Both level-triggered
        /// and edge-triggered watching will do. It belongs to the loop: watch it, and neither read nor close it.
        public let descriptor: Int32

        private let mode: OpenMode
        private var pass: Pass
        private var phase = Phase.between
        /// Whether the run is in ``prepare()`` or ``dispatch()``.
        private var isInCallout = false

        /// Whether ``prepare()`` would call nothing.
        package var isAsleep: Bool { if case .asleep = phase { true } else { false } }

        /// Begins a run of a mode, and calls the observers of ``RunLoopActivity/entry``.
        /// - Throws: ``RunLoopError`` when no descriptor is left, the thread was stopped, or the process is a forked child.
        @available(*, noasync, message: "a task may go on on another thread, and the run is the thread's")
        public convenience init(mode: Mode = .default) throws(RunLoopError) {
            contract(mode != .common, "the common modes are no mode to run: name one of them")
            let loop = ThreadRunLoop.current
            try loop.checkThread()
            guard var opened = try loop.open(mode, mayBeEmpty: true) else { throw .loopEnded }
            loop.enter(&opened)
            self.init(loop, opened, Pass(limit: .distantFuture, returnAfterSourceHandled: false, mayBeEmpty: true))
        }

        /// Begins a run that ends as an ordinary run with these arguments; nil when the mode is empty.
        @available(*, noasync)
        package convenience init?(
            unlessEmpty mode: Mode, until limit: @autoclosure () -> MonotonicInstant, returnAfterSourceHandled: Bool
        ) throws(RunLoopError) {
            let loop = ThreadRunLoop.current
            try loop.checkThread()
            guard var opened = try loop.open(mode) else { return nil }
            loop.enter(&opened)
            self.init(loop, opened, Pass(limit: limit(), returnAfterSourceHandled: returnAfterSourceHandled))
        }

        private init(_ loop: ThreadRunLoop, _ mode: OpenMode, _ pass: Pass) {
            (self.loop, self.mode, self.pass) = (loop, mode, pass)
            descriptor = mode.waitSet.set
            loop.drivenRuns.add(1, ordering: .relaxed)
            if loop.takeStop() { phase = .stopped }
        }

        deinit {
            // A thread that has ended has ended the run.
            if loop.isCurrent { stop() }
        }

        /// Goes on to the point where an ordinary run would sleep. Call it before the other loop sleeps; a call while the
        /// pass sleeps already does nothing but return the time.
        /// - Returns: The time until the latest call of ``dispatch()``: zero when there is work at once, and otherwise the
        ///   time until the mode's next timer, which the descriptor reports, too; nil without a timer.
        @available(*, noasync, message: "a task may go on on another thread, and the run is the thread's")
        public func prepare() -> Duration? {
            let deadline = prepared()
            if deadline == .distantPast { return .zero }
            return deadline == .distantFuture ? nil : max(.zero, MonotonicInstant.now.duration(to: deadline))
        }

        private func prepared() -> MonotonicInstant {
            guard enter() else { return .distantPast }
            defer { isInCallout = false }
            switch phase {
            case .awake, .stopped: return .distantPast
            case .over: return .distantFuture
            case .between:
                let pause = loop.begin(&pass, mode)
                phase = .awake(pause)
                guard case .sleep = pause else { return .distantPast }
                loop.notify(.beforeWaiting, mode)
                if crl_is_forked() || !fallsAsleep() { return .distantPast }
                phase = .asleep
                loop.passEnds(.sleeps)
            case .asleep: break
            }
            // A poller that waits for edges has had the edge of a descriptor that is still ready.
            if loop.hasWork(descriptor) { return .distantPast }
            return min(pass.limit, loop.state.withLock { $0.modes[mode.index].timers.soonest() } ?? .distantFuture)
        }

        /// Serves one event and the blocks, as an ordinary run does after its sleep, without blocking.
        /// Does nothing when nothing is ready.
        /// - Returns: Nil while the run goes on; its result when it has ended.
        @available(*, noasync, message: "a task may go on on another thread, and the run is the thread's")
        @discardableResult
        public func dispatch() -> RunResult? {
            if case .between = phase { _ = prepared() }
            guard enter() else { return .stopped }
            defer { isInCallout = false }
            var event = PassEvent.none
            switch phase {
            case .between: return nil
            case .over(let result): return result
            case .stopped: return close(.stopped)
            case .awake(.mainQueue): event = .mainQueue
            case .awake(.nothing): event = loop.sleep(mode, until: .distantPast, guestEndsAfterSource: nil)
            case .awake(.sleep):
                event = loop.sleep(mode, until: .distantPast, guestEndsAfterSource: nil)
                loop.notify(.afterWaiting, mode)
            case .asleep:
                let isAlone = loop.isMain && loop.state.withLock { $0.modes[mode.index].hasNoSourceOrTimer }
                let ready = loop.nextEvent(mode, .distantPast, isMainQueueAlone: isAlone)
                if ready == nil, !loop.isWoken, !pass.limit.hasPassed { return nil }
                loop.wakesFromSleep(loop.wakeUp(by: ready))
                event = loop.state.withLock { loop.event(for: ready, mode, &$0) }
                loop.notify(.afterWaiting, mode)
            }
            phase = .between
            return loop.finish(&pass, mode, serving: event).map(close)
        }

        /// Ends the run, if it has not ended, and calls the observers of ``RunLoopActivity/exit``; inside a callout
        /// of the run, the pass ends first. The run's last reference ends the run, too.
        public func stop() {
            if case .over = phase { return }
            if isInCallout {
                // The pass goes on to its end.
                loop.stopRun(depth: mode.depth)
                return
            }
            if !crl_is_forked() { checkInnermost() }
            _ = close(.stopped)
        }

        private func fallsAsleep() -> Bool {
            loop.state.withLock { state in
                let isRaised = state.modes[mode.index].firstRaised() != nil
                guard loop.fallsAsleep(isRaised: isRaised) else { return false }
                loop.prepareWait(mode, &state)
                return true
            }
        }

        private func close(_ result: RunResult) -> RunResult {
            phase = .over(result)
            loop.drivenRuns.subtract(1, ordering: .relaxed)
            if crl_is_forked() { return result }
            // The program outside sees what has woken the run, and an outer run does.
            _ = loop.changeWakeState(from: .asleep, to: .awake)
            loop.notify(.exit, mode)
            loop.close()
            return result
        }

        /// False in a forked child.
        private func enter() -> Bool {
            if crl_is_forked() { return false }
            if case .over = phase {} else { checkInnermost() }
            contract(!isInCallout, "a callout of a driven run cannot drive that run: begin another inside it")
            isInCallout = true
            return true
        }

        private func checkInnermost() {
            contract(loop.isCurrent, "only the loop's own thread can drive a run of it")
            contract(
                loop.state.withLock { $0.runs.count } == mode.depth,
                "a run that began inside a driven run has to end before the driven one goes on or ends")
        }
    }
}
