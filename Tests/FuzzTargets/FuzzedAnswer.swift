import RunLoops

@testable import Ports

/// What the owner of a port answers to questions about it.
package enum FuzzedAnswer {
    /// What is wrong with what the bytes become; nil when nothing is. Programs show all of it.
    static func fault(in bytes: [UInt8]) -> String? {
        let service = PortService(bytes: bytes)
        _ = (service.condition, service.trouble, service.remedy, service.takers, service.statistics)
        _ = (service.senders.map(\.description), service.awaited.map(\.description))
        _ = service.requests.map(\.description)
        let counts =
            [
                service.waitingThreads, service.waitingTasks, service.iteratingTasks, service.descriptors,
                service.handlingThreads, service.handled, service.waitingBefore, service.received, service.waiting,
                service.queueLimit, service.requestCount, service.lastingCount,
            ] + service.senders.flatMap { [$0.sent, $0.recently, $0.taken, $0.sinceEmpty] }
            + service.awaited.flatMap { [$0.replies, $0.senders] }
            + (service.handlers.map { [$0.count, $0.limit] } ?? [])
        if !counts.allSatisfy(isCount) { return "a count of the service is none" }
        let packet = PortEvents(bytes: bytes)
        for event in packet.events {
            guard event.time.isFinite, event.time >= 0,
                ([event.number, event.size, event.ports] + event.sizes).allSatisfy(isCount)
            else { return "a number of an event is none" }
        }
        guard isCount(packet.lost), packet.events.count <= FieldWriter.most else { return "too many events" }
        return faultOfRecordings(bytes)
    }

    private static func isCount(_ count: Int) -> Bool { (0...1 << 48).contains(count) }

    private static func faultOfRecordings(_ bytes: [UInt8]) -> String? {
        for recording in recordings(of: bytes) {
            _ = (recording.totals, recording.description)
            let isGood = recording.spans.allSatisfy { span in
                recording.start <= span.start && span.start <= span.end && span.end <= recording.end
                    && (0...255).contains(span.depth)
            }
            if !isGood { return "a span is not in its recording" }
        }
        return nil
    }

    /// Good parts before and after those of the bytes.
    package static func recordings(of bytes: [UInt8]) -> [LoopRecording] {
        var received = ReceivedRecordings()
        for part in [bytes, part.bytes, bytes] { _ = received.take((part, false)) }
        return received.all
    }

    /// A good answer with some words and bytes changed: extremes find more than the middle.
    package static func spoilt(_ generator: inout some RandomNumberGenerator) -> [UInt8] {
        var bytes = seeds.randomElement(using: &generator) ?? []
        let extremes: [UInt64] = [
            .max, 0, 1, 1 << 63, .max >> 1, 1 << 62, 1 << 48, Double.nan.bitPattern, Double.infinity.bitPattern,
            Double.greatestFiniteMagnitude.bitPattern, (-1e300).bitPattern,
        ]
        for _ in 0...Int.random(in: 0..<4, using: &generator) where bytes.count >= 8 {
            let offset =
                Int.random(in: 0...bytes.count - 8, using: &generator) & ~(Bool.random(using: &generator) ? 7 : 0)
            let word = extremes.randomElement(using: &generator) ?? 0
            withUnsafeBytes(of: word.littleEndian) { bytes.replaceSubrange(offset..<offset + 8, with: $0) }
        }
        if Int.random(in: 0..<8, using: &generator) == 0 {
            bytes.removeLast(Int.random(in: 0...bytes.count, using: &generator))
        }
        return bytes
    }

    package static let seeds = [service.bytes, events.bytes, part.bytes, [], words(.max), words(-1)]

    private static func words(_ number: Int) -> [UInt8] {
        var writer = FieldWriter()
        for _ in 0..<40 { writer.write(number) }
        return writer.bytes
    }

    private static var service: PortService {
        PortService(
            pid: 1, hasHandler: true,
            loops: [
                .init(
                    thread: 5, threadName: "x", modes: ["default", "m"], running: ["default"], isWaiting: false,
                    callout: "source", busyFor: .seconds(1), isBusyForLonger: true, isComputing: true)
            ], queue: .init(label: "q", isBusy: true), waitingThreads: 1, waitingTasks: 1, iteratingTasks: 2,
            isReceiverAway: true, descriptors: 1, handlingThreads: 1, observed: .milliseconds(300), handled: 5,
            waitingBefore: 500,
            received: 100, waiting: 500, queueLimit: 1000,
            senders: [
                .init(
                    pid: 8, program: "/bin/y", sent: 10, recently: 1, taken: 1, sinceEmpty: 10, hasEnded: false),
                .init(pid: 7, program: nil, sent: 90, recently: 9, taken: 4, sinceEmpty: 80, hasEnded: true),
            ], awaited: [.init(port: "1.2", title: "port “x”", replies: 1, senders: 2)],
            handlers: .init(count: 2, limit: 100, fullLane: "jobs"), requestCount: 1, lastingCount: 1,
            requests: [
                .init(
                    id: 7, name: "Lookup", pid: 8, program: "y", age: .seconds(3), mayLast: false,
                    isReplying: false, isCancelled: true),
                .init(
                    id: 9, name: nil, pid: 0, program: nil, age: .seconds(2), mayLast: true, isReplying: true,
                    isCancelled: false),
            ], servingTasks: 1)
    }

    private static var events: PortEvents {
        var packet = PortEvents()
        packet.lost = 3
        for (kind, duration) in [(.request, nil), (.reply, .milliseconds(2))] as [(PortEvent.Kind, Duration?)] {
            packet.events.append(
                PortEvent(
                    kind: kind, time: 1.7e9, number: 1, id: 7, name: "Lookup", sizes: [3, 0], size: 3, ports: 1,
                    sender: 4711,
                    program: "/bin/x", duration: duration))
        }
        return packet
    }

    private static var part: RecordingPart {
        let spans: [LoopRecording.Span] = [
            .init(.pass, mode: "m", depth: 0, start: .init(nanoseconds: 5), end: .init(nanoseconds: 9)),
            .init(.sleep(.init(.timer)), mode: "m", depth: 1, start: .init(nanoseconds: 6), end: .init(nanoseconds: 7)),
            .init(
                .callout(.init(.source, label: "x", count: 2)), mode: nil, depth: 1, start: .init(nanoseconds: 7),
                end: .init(nanoseconds: 8), isOver: false),
        ]
        return RecordingPart(
            number: 0,
            recording: LoopRecording(
                loop: "thread 1", start: .init(nanoseconds: 1), end: .init(nanoseconds: 20), spans: spans, dropped: 4))
    }
}
