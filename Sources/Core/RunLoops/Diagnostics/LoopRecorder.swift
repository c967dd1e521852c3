import CRunLoopShims
import RunLoopLocks
import Synchronization

/// Records a loop's passes, its callouts with the labels of their items, and its sleeps.
///
///     let recorder = try LoopRecorder(.main)
///     // Some seconds later, on any thread:
///     recorder.stop()
///     print(recorder.recording)
///
/// The loop's thread writes some words for each event, without a lock and without an allocation, and keeps the label of
/// an item that leaves the loop; without a recorder it does neither. A recorder has room for a number of events, about
/// five for a pass that sleeps and makes one callout, and drops the oldest events. Blocks and tasks that come one after
/// another share a span until the clock's next tick, mostly 4 ms later. Several recorders may record one loop,
/// independently of each other. After a suspension of the machine, begin a new recording, because the processor's
/// counter, which gives the times, may have begun at zero again.
///
/// Any thread may make, stop and read a recorder, also while the loop runs, or after its thread has ended. The loop
/// retains no recorder, but keeps the memory of one until the first event after it has stopped.
public final class LoopRecorder: Sendable {
    private let loop: ThreadRunLoop
    private let tape: Tape
    private let start: TickClock.Moment
    /// The loop's activity when the recording began; nil if the loop had recorded an event by then.
    private let first: Playback.Moment?
    private let end = Lock<TickClock.Moment?>(nil)

    /// Begins to record a loop.
    /// - Parameters:
    ///   - loop: The loop, of any thread.
    ///   - capacity: The number of events to keep, of 16 bytes each: at least 16, at most 16,777,216, and rounded up to
    ///     a power of two.
    /// - Throws: ``RunLoopError`` when the capacity is out of its range, the loop's thread has ended, or the process is a
    ///   forked child.
    public init(_ loop: ThreadRunLoop, capacity: Int = 65_536) throws(RunLoopError) {
        if crl_is_forked() { throw .forked }
        try RunLoopError.check("capacity", capacity, in: 16...1 << 24)
        if loop.hasEnded { throw .loopEnded }
        let tape = Tape(capacity: capacity)
        (self.loop, self.tape, start) = (loop, tape, tape.clock.now())
        loop.state.withLock { state in
            state.tapes.append(tape)
            loop.tapesChanged()
        }
        // From now on the loop's thread records the end of its present activity.
        let moment = loop.moment
        first = tape.isEmpty ? moment : nil
    }

    deinit { stop() }

    /// Ends the recording, which stays readable. Any thread may call it.
    public func stop() {
        if crl_is_forked() { return }
        let now = tape.clock.now()
        end.withLock { if $0 == nil { $0 = now } }
        loop.state.withLock { state in
            state.tapes.removeAll { $0 === tape }
            loop.tapesChanged()
        }
    }

    /// The recording until now, or until it was stopped. Takes some hundred nanoseconds for each event. Empty in a
    /// forked child. Any thread may ask.
    public var recording: LoopRecording {
        let name = loop.isMain ? "the main thread" : "thread \(loop.threadID)"
        let startTime = start.time.continuous
        if crl_is_forked() { return LoopRecording(loop: name, start: startTime, end: startTime, spans: []) }
        // The present items are read before the departed ones, so that each item is in one of the two. Their labels are
        // read after the lock.
        let (modes, items, hasEnded) = loop.state.withLock { state in
            (state.modes.map(\.mode), state.modes.flatMap(\.items), state.hasEnded)
        }
        let departed = tape.departed
        let present = Dictionary(items.map { (UInt(bitPattern: $0.id), $0) }) { first, _ in first }
        let now = loop.moment
        let (entries, dropped) = tape.read()
        let stop = end.withLock { $0 }
        let end = stop ?? tape.clock.now()
        let endTime = startTime + start.time.duration(to: end.time)
        var time = startTime
        let recorded = entries.prefix { $0.ticks <= end.ticks }.map { entry in
            // The processors' counters may differ by some ticks.
            let ticked = TickClock.time(entry.ticks, between: start, and: end)
            time = max(time, startTime + start.time.duration(to: ticked))
            return (time: time, event: entry.event)
        }
        let beginning = dropped > 0 ? recorded.first?.time ?? endTime : startTime

        var playback = Playback(start: beginning) {
            modes.indices.contains($0) ? modes[$0] : nil
        } label: { callout, event in
            guard let address = callout.address else { return nil }
            if let label = departed.label(at: address, event: event) { return label }
            return present[address].map(\.recordedLabel) ?? departed.lastLabel(at: address)
        }
        // Without an event the loop still does what it did, but one block may have followed another.
        let moment = recorded.isEmpty && stop == nil && !hasEnded ? now : first
        if dropped == 0, let moment { playback.begin(in: moment) }
        for (number, entry) in zip(dropped..., recorded) { playback.play(entry.event, number: number, at: entry.time) }
        playback.finish(at: endTime)
        return LoopRecording(loop: name, start: beginning, end: endTime, spans: playback.spans, dropped: dropped)
    }
}

extension ThreadRunLoop {
    fileprivate var moment: Playback.Moment {
        let run = state.withLock { state in state.runs.last.map { (mode: $0.mode, depth: state.runs.count) } }
        return Playback.Moment(run: run, isAsleep: isWaiting, callout: progress.currentCallout)
    }
}
