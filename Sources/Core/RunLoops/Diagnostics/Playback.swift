/// Turns the events of a tape into spans.
struct Playback {
    private struct Frame {
        let span: Int
        let callout: Callout?
        /// The depth of a pass's run.
        let depth: Int?
    }

    private(set) var spans: [LoopRecording.Span] = []
    private var open: [Frame] = []
    private let start: ContinuousClock.Instant
    private let mode: (Int) -> ThreadRunLoop.Mode?
    private let label: (Callout, _ event: Int) -> String?

    /// - Parameters:
    ///   - start: When the recording began.
    ///   - mode: The mode of an index.
    ///   - label: The label of a callout's item at an event.
    init(
        start: ContinuousClock.Instant, mode: @escaping (Int) -> ThreadRunLoop.Mode?,
        label: @escaping (Callout, _ event: Int) -> String?
    ) {
        (self.start, self.mode, self.label) = (start, mode, label)
    }

    mutating func play(_ event: LoopEvent, number: Int, at time: ContinuousClock.Instant) {
        switch event.meaning {
        case .pass(let index, let depth):
            closePasses(ofDepth: depth, at: time)
            begin(.pass, at: time, depth: depth, mode: mode(index))
        case .runEnds(let left):
            closePasses(ofDepth: left + 1, at: time)
        case .sleeps: begin(.sleep(.init()), at: time)
        case .polls: begin(.sleep(.init(isPolling: true)), at: time)
        case .wakes(let reason):
            guard let frame = open.lastIndex(where: { spans[$0.span].sleep != nil }) else {
                return addUnbegunSleep(.init(reason), until: time)
            }
            if let reason { spans[open[frame].span].activity = .sleep(.init(reason)) }
            close(from: frame, at: time)
        case .begins(let callout):
            begin(.callout(described(callout, number)), at: time, callout: callout)
        case .ends(_, count: 0):
            // Blocks that were being performed when the recording began.
            let frame = open.lastIndex { $0.callout?.isOfBlocks == true && !spans[$0.span].isBeginningKnown }
            if let frame { close(from: frame, at: time) }
        case .ends(let callout, let count):
            guard let frame = open.lastIndex(where: { $0.callout == callout }) else {
                return addOutermost(.callout(described(callout, number, count)), until: time)
            }
            if count > 1, case .callout(var counted) = spans[open[frame].span].activity {
                counted.count = count
                spans[open[frame].span].activity = .callout(counted)
            }
            close(from: frame, at: time)
        case nil: break
        }
    }

    /// A loop's activity at a moment.
    struct Moment {
        /// The innermost run, if there is one.
        let run: (mode: Int, depth: Int)?
        let isAsleep: Bool
        let callout: Callout
    }

    /// Begins with the loop's activity when the recording began.
    mutating func begin(in moment: Moment) {
        guard let run = moment.run else { return }
        begin(.pass, at: start, depth: run.depth, mode: mode(run.mode), isBeginningKnown: false)
        if moment.isAsleep {
            begin(.sleep(.init()), at: start, isBeginningKnown: false)
        } else if moment.callout != .none {
            begin(.callout(described(moment.callout, 0)), at: start, callout: moment.callout, isBeginningKnown: false)
        }
    }

    /// Ends the spans in progress.
    mutating func finish(at end: ContinuousClock.Instant) {
        for frame in open {
            spans[frame.span].end = end
            spans[frame.span].isOver = false
        }
        open = []
    }

    private func described(_ callout: Callout, _ number: Int, _ count: Int = 1) -> LoopRecording.Callout {
        LoopRecording.Callout(callout.kind ?? .block, label: label(callout, number), count: count)
    }

    private mutating func begin(
        _ activity: LoopRecording.Activity, at time: ContinuousClock.Instant, callout: Callout? = nil,
        depth: Int? = nil,
        mode: ThreadRunLoop.Mode? = nil, isBeginningKnown: Bool = true
    ) {
        let mode = mode ?? open.last.flatMap { spans[$0.span].mode }
        open.append(Frame(span: spans.count, callout: callout, depth: depth))
        spans.append(
            .init(
                activity, mode: mode, depth: open.count - 1, start: time, end: time, isBeginningKnown: isBeginningKnown)
        )
    }

    private mutating func close(from frame: Int, at time: ContinuousClock.Instant) {
        for index in frame..<open.count { spans[open[index].span].end = time }
        open.removeSubrange(frame...)
    }

    /// Ends the passes of a run, and of the runs inside it.
    private mutating func closePasses(ofDepth depth: Int, at time: ContinuousClock.Instant) {
        // Outside of all runs nothing is in progress.
        if depth <= 1 { return close(from: 0, at: time) }
        if let frame = open.firstIndex(where: { ($0.depth ?? 0) >= depth }) { close(from: frame, at: time) }
    }

    /// Adds a span that began before the first event, around all spans so far.
    private mutating func addOutermost(_ activity: LoopRecording.Activity, until end: ContinuousClock.Instant) {
        close(from: 0, at: end)
        for index in spans.indices { spans[index].depth += 1 }
        spans.insert(
            .init(activity, mode: nil, depth: 0, start: start, end: end, isBeginningKnown: false), at: 0)
    }

    /// Adds a sleep that began before the first event, or was about to end when the recording began.
    private mutating func addUnbegunSleep(_ sleep: LoopRecording.Sleep, until end: ContinuousClock.Instant) {
        guard open.count == 1, spans.count == 1, !spans[0].isBeginningKnown else {
            return addOutermost(.sleep(sleep), until: end)
        }
        begin(.sleep(sleep), at: start, isBeginningKnown: false)
        close(from: 1, at: end)
    }
}

extension Callout {
    fileprivate var isOfBlocks: Bool { kind == .block || kind == .task }
}
