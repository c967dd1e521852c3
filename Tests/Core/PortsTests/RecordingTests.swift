import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import FuzzTargets
@testable import Ports
@testable import PortsInspection

@Suite(.ownThread) struct RecordingTests {
    private let sandbox = Sandbox()

    /// Of a runtime of its own: few recordings are made at once in one.
    private func port() throws -> (port: MachPort, runtime: PortRuntime) {
        let runtime = PortRuntime(directory: sandbox.path)
        return (try MachPort(nameServer: runtime.nameServer) { _ in }, runtime)
    }

    @Test func `the loops of a port are recorded`() throws {
        let (port, _) = try port()
        let threads = [try RunLoopThread(name: "one"), try RunLoopThread(name: "two")]
        for thread in threads { try port.schedule(in: thread.loop) }
        let timer = ThreadRunLoop.Timer(after: .milliseconds(1), repeats: true, label: "tick") { _ in }
        try threads[0].loop.add(timer)
        // On a busy machine a loop may have no turn for a while.
        let recordings = try port.sendRight.recordings(for: .seconds(1))
        #expect(recordings.count == 2)
        let ticking = recordings.filter { $0.callouts.contains { $0.callout?.label == "tick" } }
        #expect(ticking.count == 1)
        let recording = try #require(ticking.first)
        #expect(recording.duration >= .seconds(1))
        #expect(recording.dropped == 0)
        #expect(recording.passes.count > 1)
        #expect(recording.sleeps.contains { $0.sleep?.wakeUp == .timer })
        port.invalidate()
        #expect(throws: PortError.self) { try port.sendRight.recordings(for: .zero) }
    }

    @Test func `a long recording comes in parts, in order`() throws {
        let (port, _) = try port()
        let (thread, isOver) = (try RunLoopThread(), Latch())
        defer { isOver.open() }
        try port.schedule(in: thread.loop)
        try thread.loop.add(
            ThreadRunLoop.Timer(after: .zero) { _ in
                let loop = ThreadRunLoop.current
                _ = try? loop.add(ThreadRunLoop.Source0 {}, forMode: "m")
                while !isOver.isOpen { _ = try? loop.runInMode("m", seconds: 0) }
            })
        var (spans, duration): ([LoopRecording.Span], _) = ([], Duration.milliseconds(500))
        // On a busy machine few passes come in a moment.
        while spans.count <= 10_000, duration < .seconds(20) {
            spans = try #require(try port.sendRight.recordings(for: duration).first).spans
            duration *= 2
        }
        #expect(spans.count > 10_000)
        #expect(zip(spans, spans.dropFirst()).allSatisfy { $0.start <= $1.start })
    }

    @Test func `a port without a loop has no recordings`() async throws {
        let (port, _) = try port()
        #expect(try await port.sendRight.recordings(for: .milliseconds(1)).isEmpty)
    }

    @Test func `few recordings are made at once`() throws {
        let (port, runtime) = try port()
        let right = port.sendRight
        let tasks = (0..<4).map { _ in Task.detached { _ = try await right.recordings(for: .seconds(60)) } }
        let inspector = runtime.inspector
        #expect(waitUntil { inspector.openCount == 4 })
        #expect(errorKind { _ = try right.recordings(for: .zero, before: .patience) } == "busy")
        for task in tasks { task.cancel() }
        #expect(waitUntil { inspector.openCount == 0 })
        _ = try right.recordings(for: .zero)
    }

    @Test func `parts that no owner sends do no harm`() {
        var generator = SplitMix64(seed: drawnSeed())
        // A thousandth of a second each. `make fuzz` tries as many as there is time for.
        for _ in 0..<2_000 {
            let bytes = FuzzedAnswer.hostile(&generator)
            #expect(bytes.withUnsafeBytes { FuzzTarget.answer.fault(in: $0) } == nil, "\(bytes)")
        }
    }

    @Test func `a recording ends with its asker`() async throws {
        let (port, runtime) = try port()
        let right = port.sendRight
        let tasks = (0..<4).map { _ in Task { _ = try await right.recordings(for: .seconds(60)) } }
        #expect(await waitUntil { runtime.inspector.openCount == 4 })
        for task in tasks { task.cancel() }
        for task in tasks { _ = await task.result }
        #expect(await waitUntil { runtime.inspector.openCount == 0 })
        _ = try await right.recordings(for: .zero)
    }

    @Test func `a part of a recording keeps everything, and any numbers do no harm`() throws {
        let spans: [LoopRecording.Span] = [
            .init(.pass, mode: "m", depth: 0, start: .init(nanoseconds: 5), end: .init(nanoseconds: 9), isOver: false),
            .init(.sleep(.init(.guest, isPolling: true)), mode: nil, depth: 1, start: .init(nanoseconds: 6), end: .now),
            .init(
                .callout(.init(.mainQueue, label: "x", count: 7)), mode: .default, depth: 2,
                start: .init(nanoseconds: 0), end: .init(nanoseconds: 1 << 60), isBeginningKnown: false),
        ]
        let part = RecordingPart(
            number: 3,
            recording: LoopRecording(
                loop: "thread 1", start: .init(nanoseconds: 1), end: .init(nanoseconds: 2), spans: spans, dropped: 4))
        let bytes = BoundedCoding.encode(part)
        let read = try #require(BoundedCoding.decode(RecordingPart.self, from: bytes))
        #expect(read.number == 3)
        #expect(read.recording == part.recording)

        var random = SplitMix64(seed: drawnSeed())
        for _ in 0..<2000 {
            var received = ReceivedRecordings()
            for number in 0..<2 {
                guard var part: RecordingPart = BoundedCoding.decode(from: FuzzedAnswer.hostilePart(&random)) else {
                    Issue.record("no part")
                    continue
                }
                part.number = number
                _ = received.take(part)
            }
            for recording in received.all {
                #expect(recording.totals.inCallouts >= .zero)
                #expect(!"\(recording)".isEmpty)
            }
        }
    }
}
