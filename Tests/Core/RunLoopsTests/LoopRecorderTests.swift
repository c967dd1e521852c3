import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct LoopRecorderTests {
    /// Records a fresh thread's loop while it does something there, until it is done and asleep again.
    private func recording(
        capacity: Int = 1024, of body: @escaping @Sendable (ThreadRunLoop) throws -> Void
    ) throws -> LoopRecording {
        let thread = try RunLoopThread()
        let recorder = try LoopRecorder(thread.loop, capacity: capacity)
        try thread.run { try body(thread.loop) }
        try thread.run {}
        #expect(waitUntil { thread.loop.isWaiting })
        recorder.stop()
        let recording = recorder.recording
        expectNested(recording)
        return recording
    }

    /// Each span lies in the one around it, and the spans of a depth do not overlap.
    private func expectNested(_ recording: LoopRecording, sourceLocation: SourceLocation = #_sourceLocation) {
        var open: [LoopRecording.Span] = []
        var last = recording.start
        for span in recording.spans {
            #expect(span.depth <= open.count, sourceLocation: sourceLocation)
            let left = open.dropFirst(span.depth).first
            open.removeLast(max(0, open.count - span.depth))
            #expect(left.map { $0.end <= span.start } ?? true, sourceLocation: sourceLocation)
            #expect(span.start >= last, sourceLocation: sourceLocation)
            #expect(span.end >= span.start, sourceLocation: sourceLocation)
            #expect(span.end <= open.last?.end ?? recording.end, sourceLocation: sourceLocation)
            last = span.start
            open.append(span)
        }
        let totals = recording.totals
        let sum = totals.asleep + totals.inCallouts + totals.ownWork + totals.elsewhere
        #expect(sum == recording.duration, sourceLocation: sourceLocation)
        for part in [totals.asleep, totals.inCallouts, totals.ownWork, totals.elsewhere] {
            #expect(part >= .zero, sourceLocation: sourceLocation)
        }
    }

    @Test func `a pass is recorded with its sleep, and with the callout that ended the sleep`() throws {
        let fired = Latch()
        let thread = try RunLoopThread()
        let recorder = try LoopRecorder(thread.loop)
        // The loop sleeps before it is due, also when its thread is held up before.
        let timer = ThreadRunLoop.Timer(after: .milliseconds(200), label: "tick") { _ in
            spin(milliseconds: 5)
            fired.open()
        }
        try thread.loop.add(timer)
        #expect(fired.wait(until: .patience))
        #expect(waitUntil { thread.loop.isWaiting })
        let recording = recorder.recording
        expectNested(recording)

        let index = try #require(recording.spans.firstIndex { $0.callout?.label == "tick" })
        let callout = recording.spans[index]
        #expect(callout.callout == LoopRecording.Callout(.timer, label: "tick"))
        #expect(callout.duration >= .milliseconds(5))
        #expect(callout.isOver)
        #expect(callout.depth == 1)
        #expect(callout.mode == .default)
        let sleep = recording.spans[index - 1]
        #expect(sleep.sleep == LoopRecording.Sleep(.timer))
        #expect(sleep.depth == 1)
        #expect(sleep.mode == .default)
        #expect(sleep.end <= callout.start)
        let pass = recording.spans[index - 2]
        #expect(pass.activity == .pass)
        #expect(pass.depth == 0)
        #expect(pass.mode == .default)
        #expect(pass.start <= sleep.start)
        #expect(pass.end >= callout.end)
        #expect(recording.dropped == 0)
        #expect(recording.loop.hasPrefix("thread "))
        #expect("\(recording)".contains("timer “tick”, "))

        // The last one goes on.
        let last = try #require(recording.spans.last)
        #expect(last.sleep == LoopRecording.Sleep())
        #expect(!last.isOver)
        #expect(last.end == recording.end)
    }

    @Test(arguments: LoopRecording.Callout.Kind.allCases.filter { $0 != .mainQueue })
    func `each kind of a callout is recorded`(_ kind: LoopRecording.Callout.Kind) throws {
        let done = Latch()
        let thread = try RunLoopThread()
        let loop = thread.loop
        let recorder = try LoopRecorder(loop)
        let event = madeEvent()
        switch kind {
        case .block: try loop.perform { done.open() }
        case .task: Task.detached(executorPreference: loop.taskExecutor) { done.open() }
        case .source:
            add(
                ThreadRunLoop.Source1(descriptor: event.descriptor, label: "source") { turn in
                    turn.source.invalidate()
                    done.open()
                    return true
                }, to: loop)
            event.raise()
        case .timer: try loop.add(ThreadRunLoop.Timer(after: .zero, label: "timer") { _ in done.open() })
        case .observer, .mainQueue:
            try loop.add(ThreadRunLoop.Observer(.beforeWaiting, label: "observer") { _, _ in done.open() })
            loop.wakeUp()
        }
        #expect(done.wait(until: .patience))
        #expect(waitUntil { loop.isWaiting })
        let callouts = recorder.recording.callouts
        let label = kind == .block || kind == .task ? nil : kind.rawValue
        #expect(callouts.contains { $0.callout?.kind == kind && $0.callout?.label == label && $0.isOver })
    }

    @Test func `what ends a sleep is recorded`() throws {
        let thread = try RunLoopThread()
        let recorder = try LoopRecorder(thread.loop)
        let event = madeEvent()
        let done = Latch()
        #expect(waitUntil { thread.loop.isWaiting })
        try thread.run {}
        #expect(waitUntil { thread.loop.isWaiting })
        add(
            ThreadRunLoop.Source1(descriptor: event.descriptor) { turn in
                turn.source.invalidate()
                done.open()
                return true
            }, to: thread.loop)
        #expect(waitUntil { thread.loop.isWaiting })
        event.raise()
        #expect(done.wait(until: .patience))
        try thread.run {
            let loop = ThreadRunLoop.current
            try loop.add(ThreadRunLoop.Source0 {}, forMode: "limited")
            run(loop, "limited", seconds: 0.1)
        }
        let recording = recorder.recording
        expectNested(recording)
        let reasons = recording.sleeps.compactMap { $0.sleep?.wakeUp }
        #expect(reasons.contains(.wakeUp))
        #expect(reasons.contains(.source))
        #expect(reasons.contains(.timeLimit))
        #expect(recording.sleeps.first { $0.sleep?.wakeUp == .timeLimit }?.mode == "limited")
        #expect(recording.callouts.contains { $0.callout?.label == "descriptor \(event.descriptor)" })
    }

    @Test func `an inner run is recorded inside the callout that runs it`() throws {
        let recording = try recording { loop in
            try loop.add(ThreadRunLoop.Timer(after: .zero, label: "inner") { _ in }, forMode: "modal")
            run(loop, "modal", seconds: 10)
        }
        let index = try #require(recording.spans.firstIndex { $0.callout?.label == "inner" })
        let inner = recording.spans[index]
        #expect(inner.mode == "modal")
        #expect(inner.depth == 3)
        let around = recording.spans[..<index]
        #expect(around.last { $0.depth == 2 }?.activity == .pass)
        #expect(around.last { $0.depth == 2 }?.mode == "modal")
        let outer = try #require(around.last { $0.depth == 1 })
        #expect(outer.callout?.kind == .source || outer.callout?.kind == .block)
        #expect(outer.mode == .default)
        #expect(outer.end >= inner.end)
        // The outer run goes on in its own mode.
        #expect(recording.spans.last?.mode == .default)
        #expect(recording.spans.last?.depth == 1)
    }

    @Test func `items that have left keep their labels, also where another has got the place of one`() throws {
        let recording = try recording { loop in
            for number in 0..<50 {
                try loop.add(ThreadRunLoop.Timer(after: .zero, label: "timer \(number)") { _ in }, forMode: "m")
                run(loop, "m", seconds: 10)
            }
            let last = ThreadRunLoop.Timer(after: .zero, label: "still there") { _ in }
            try loop.add(last, forMode: "m")
        }
        let labels = recording.callouts.compactMap { $0.callout?.label }
        #expect(labels == (0..<50).map { "timer \($0)" })
    }

    @Test func `the oldest events are dropped and counted`() throws {
        let recording = try recording(capacity: 64) { loop in
            try loop.add(ThreadRunLoop.Source0 {}, forMode: "m")
            for number in 0..<500 {
                try loop.add(ThreadRunLoop.Timer(after: .zero, label: "\(number)") { _ in }, forMode: "m")
                run(loop, "m", seconds: 0)
            }
        }
        #expect(recording.dropped > 500)
        #expect(recording.spans.count < 64)
        #expect(recording.callouts.compactMap(\.callout?.label).last == "499")
        #expect(recording.spans.allSatisfy { $0.start >= recording.start })
        // The block that they ran in has no beginning left.
        #expect(recording.spans.first?.isBeginningKnown == false)
        #expect(recording.spans.first?.depth == 0)
    }

    @Test func `nothing is recorded after the end of a recording`() throws {
        let thread = try RunLoopThread()
        let recorder = try LoopRecorder(thread.loop)
        try thread.run {}
        recorder.stop()
        let first = recorder.recording
        for _ in 0..<10 { try thread.run {} }
        #expect(recorder.recording == first)
        recorder.stop()
        #expect(recorder.recording == first)
    }

    @Test func `several recorders record a loop, each for itself`() throws {
        let thread = try RunLoopThread()
        func call(_ label: String) throws {
            try thread.run {
                let loop = ThreadRunLoop.current
                try loop.add(ThreadRunLoop.Timer(after: .zero, label: label) { _ in }, forMode: "m")
                run(loop, "m", seconds: 10)
            }
        }
        let first = try LoopRecorder(thread.loop)
        try call("1")
        let second = try LoopRecorder(thread.loop, capacity: 256)
        try call("2")
        first.stop()
        try call("3")
        func labels(_ recorder: LoopRecorder) -> [String] { recorder.recording.callouts.compactMap(\.callout?.label) }
        #expect(labels(first) == ["1", "2"])
        #expect(labels(second) == ["2", "3"])
    }

    @Test func `a callout that began before the recording is recorded`() throws {
        let thread = try RunLoopThread()
        let (isInside, mayGoOn, hasEnded) = (Latch(), Latch(), Latch())
        try thread.loop.add(
            ThreadRunLoop.Timer(after: .zero, label: "stuck") { _ in
                isInside.open()
                _ = mayGoOn.wait(until: .patience)
            })
        #expect(isInside.wait(until: .patience))
        let recorder = try LoopRecorder(thread.loop)
        let before = recorder.recording
        #expect(before.spans.count == 2)
        let stuck = try #require(before.spans.last)
        #expect(stuck.callout == LoopRecording.Callout(.timer, label: "stuck"))
        #expect(!stuck.isOver)
        #expect(!stuck.isBeginningKnown)
        #expect(stuck.duration == before.duration)
        try thread.loop.perform { hasEnded.open() }
        mayGoOn.open()
        #expect(hasEnded.wait(until: .patience))
        let after = recorder.recording
        expectNested(after)
        let over = try #require(after.callouts.first)
        #expect(over.callout?.label == "stuck")
        #expect(over.isOver)
        #expect(!over.isBeginningKnown)
        #expect(over.depth == 1)
        #expect(after.callouts.count { $0.callout?.label == "stuck" } == 1)
    }

    @Test func `a loop that sleeps all the time has one sleep`() throws {
        let thread = try RunLoopThread()
        #expect(waitUntil { thread.loop.isWaiting })
        let recorder = try LoopRecorder(thread.loop)
        let recording = recorder.recording
        #expect(recording.spans.map(\.activity) == [.pass, .sleep(.init())])
        #expect(recording.spans.allSatisfy { $0.mode == .default && !$0.isOver && !$0.isBeginningKnown })
        #expect(recording.totals.asleep == recording.duration)
        try thread.run {}
        #expect(recorder.recording.sleeps.first?.sleep?.wakeUp == .wakeUp)
    }

    @Test func `a recording outlives its loop's thread`() throws {
        let thread = try RunLoopThread()
        let recorder = try LoopRecorder(thread.loop)
        try thread.run {
            try ThreadRunLoop.current.add(ThreadRunLoop.Source0(label: "kept") {})
        }
        let source = ThreadRunLoop.Source0(label: "signalled") {}
        try thread.loop.add(source)
        source.signal()
        thread.finish()
        #expect(thread.join(before: .patience))
        let recording = recorder.recording
        expectNested(recording)
        #expect(recording.callouts.contains { $0.callout?.label == "signalled" })
        #expect(recording.spans.allSatisfy { $0.isOver })
        #expect(throws: RunLoopError.self) { try LoopRecorder(thread.loop) }
    }

    @Test func `blocks that come together share spans, and are counted`() throws {
        let recording = try recording(capacity: 65_536) { loop in
            for _ in 0..<10_000 { try loop.perform(inModes: ["m"]) {} }
            run(loop, "m", seconds: 0)
        }
        let blocks = recording.callouts.filter { $0.mode == "m" }
        #expect(blocks.reduce(0) { $0 + ($1.callout?.count ?? 0) } == 10_000)
        #expect(blocks.count < 1000)
        #expect(blocks.contains { "\($0)".contains(" blocks, ") })
    }

    @Test func `a driven run and another loop's work in it are recorded`() throws {
        let recording = try recording { loop in
            let driven = try ThreadRunLoop.DrivenRun(mode: "driven")
            let due = ThreadRunLoop.Timer(after: .milliseconds(5), label: "due") { _ in loop.stop() }
            var isFirst = true
            repeat {
                if driven.prepare() != .zero, isFirst {
                    isFirst = false
                    // The other loop's own work, which runs ours.
                    try loop.perform(inModes: ["inside"]) {}
                    run(loop, "inside", seconds: 0)
                    try loop.add(due, forMode: "driven")
                }
            } while driven.dispatch() == nil
        }
        let due = try #require(recording.callouts.first { $0.callout?.label == "due" })
        #expect(due.mode == "driven")
        let inside = try #require(recording.passes.first { $0.mode == "inside" })
        let around = recording.spans.last { $0.depth == inside.depth - 1 && $0.start <= inside.start }
        #expect(around?.sleep != nil)
        #expect(around?.mode == "driven")
        #expect(recording.spans.last?.mode == .default)
    }

    @Test func `a guest's turn is a sleep`() throws {
        let thread = try RunLoopThread()
        let recorder = try LoopRecorder(thread.loop)
        let served = Shared(0)
        thread.loop.guest = { turn in
            let count = served.withLock { count in
                count += 1
                return count
            }
            while !turn.isOver, count > 3 {}
            return count <= 3
        }
        #expect(waitUntil { served.withLock { $0 } > 3 })
        thread.loop.guest = nil
        try thread.run {}
        let recording = recorder.recording
        expectNested(recording)
        #expect(recording.sleeps.contains { $0.sleep?.wakeUp == .guest })
    }

    @Test func `a loop that polls is recorded as one that waits awake`() throws {
        let thread = try RunLoopThread()
        try thread.loop.setPollingTime(.milliseconds(1))
        let recorder = try LoopRecorder(thread.loop)
        for _ in 0..<100 { try thread.run {} }
        expectNested(recorder.recording)
    }

    @Test func `any thread reads, starts and stops while the loop is busy`() async throws {
        let thread = try await RunLoopThread()
        let loop = thread.loop
        let isOver = Shared(false)
        try loop.add(
            ThreadRunLoop.Timer(after: .microseconds(50), repeats: true, label: "busy") { timer in
                try? loop.perform {}
                if isOver.withLock({ $0 }) { timer.invalidate() }
            })
        try await withThrowingTaskGroup { group in
            for capacity in [16, 64, 1024, 65_536] {
                group.addTask {
                    for _ in 0..<30 {
                        let recorder = try LoopRecorder(loop, capacity: capacity)
                        let end = MonotonicInstant.now + .milliseconds(1)
                        repeat {
                            let recording = recorder.recording
                            expectNested(recording)
                            #expect(
                                recording.callouts.allSatisfy {
                                    $0.callout?.kind != .timer || $0.callout?.label == "busy"
                                })
                        } while !end.hasPassed
                        recorder.stop()
                    }
                }
            }
            try await group.waitForAll()
        }
        isOver.withLock { $0 = true }
    }
}
