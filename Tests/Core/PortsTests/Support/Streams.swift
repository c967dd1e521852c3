import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Takes note of numbered messages of several streams. Each stream has to come in order, without a gap or a double:
/// what has come of it is a prefix.
final class Streams: Sendable {
    private struct State {
        var next: [UInt32] = []
        var count = 0
        var broken: [String] = []
    }

    private let state = Shared(State())

    /// What was lost, doubled or out of order, in all tests together.
    static let losses = Shared(0)
    /// How many messages came, in all tests together.
    static let messages = Shared(0)

    /// Sends so many messages of a stream.
    static func flood(
        _ right: MachPort.SendRight, stream: UInt32, count: Int,
        before deadline: ContinuousClock.Instant = Scale.patience
    ) throws(PortError) {
        let bytes = withUnsafeBytes(of: stream.littleEndian) { Array($0) }
        for number in 0..<UInt32(count) { try right.send(id: number, bytes: bytes.span.bytes, before: deadline) }
    }

    func note(_ message: MachPort.Message) {
        let stream = message.withBytes { bytes in
            bytes.byteCount >= 4 ? Int(bytes.unsafeLoadUnaligned(as: UInt32.self)) : 0
        }
        note(message.id, of: stream ?? 0)
    }

    private func note(_ number: UInt32, of stream: Int) {
        state.withLock { state in
            while state.next.count <= stream { state.next.append(0) }
            if state.next[stream] != number, state.broken.count < 10 {
                state.broken.append("\(number) came in place of \(state.next[stream]) in stream \(stream)")
                Self.losses.withLock { $0 += 1 }
            }
            state.next[stream] = number + 1
            state.count += 1
        }
    }

    /// How many have come.
    var count: Int { state.withLock { $0.count } }

    /// How many have come of a stream.
    func count(of stream: Int) -> Int { state.withLock { $0.next.count > stream ? Int($0.next[stream]) : 0 } }

    /// Waits until some streams are complete, and makes sure that all are in order.
    func expect(_ streams: some Sequence<Int>, each: Int, sourceLocation: SourceLocation = #_sourceLocation) {
        let deadline = Scale.patience
        for stream in streams where !wait(until: deadline, { self.count(of: stream) == each }) {
            Self.losses.withLock { $0 += 1 }
            Issue.record("\(count(of: stream)) of \(each) came of stream \(stream)", sourceLocation: sourceLocation)
        }
        Self.messages.withLock { $0 += count }
        let broken = state.withLock { $0.broken }
        #expect(broken == [], sourceLocation: sourceLocation)
    }

    private func wait(until deadline: ContinuousClock.Instant, _ condition: () -> Bool) -> Bool {
        while !condition() {
            if deadline.hasPassed || !state.withLock({ $0.broken }).isEmpty { return condition() }
            if waitUntil(condition) { return true }
        }
        return true
    }
}
