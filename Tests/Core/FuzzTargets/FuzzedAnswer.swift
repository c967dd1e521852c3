import RunLoops

@testable import Ports
@testable import PortsInspection

/// The answer of a port's owner to questions about the port.
package enum FuzzedAnswer {
    /// The fault of the value that the bytes become; nil for none. Programs show all of the value.
    static func fault(in bytes: [UInt8]) -> String? {
        if let info: PortInfo = BoundedCoding.decode(from: bytes), let fault = fault(in: info) { return fault }
        if let packet: PortEvents = BoundedCoding.decode(from: bytes) {
            for event in packet.events {
                guard event.time.isFinite, event.time >= 0,
                    ([event.number, event.size, event.ports] + event.sizes).allSatisfy(isCount),
                    event.name?.utf8.count ?? 0 <= BoundedCoding.most
                else { return "a number or a name of an event is none" }
            }
            guard isCount(packet.lost), packet.events.count <= BoundedCoding.most else { return "too many events" }
        }
        return faultOfRecordings(bytes)
    }

    private static func fault(in info: PortInfo) -> String? {
        _ = (info.condition, info.trouble, info.remedy, info.takerTexts, info.statistics)
        _ = (info.senders.map(\.description), info.awaited.map(\.description))
        _ = info.requests.oldest.map(\.description)
        let (takers, queue) = (info.takers, info.queue)
        let counts =
            [
                takers.waitingThreads, takers.waitingTasks, takers.iteratingTasks, takers.descriptors,
                takers.handlingThreads, queue.handled, queue.waitingBefore, queue.received, queue.waiting, queue.limit,
                info.requests.count, info.requests.lasting,
            ] + info.senders.flatMap { [$0.sent, $0.recently, $0.taken, $0.sinceEmpty] }
            + info.awaited.flatMap { [$0.replies, $0.senders] }
            + (takers.handlers.map { [$0.count, $0.limit] } ?? [])
        if !counts.allSatisfy(isCount) { return "a count of the answer is none" }
        let times = info.requests.oldest.map(\.age) + takers.loops.compactMap(\.busyFor) + [queue.observed]
        if times.contains(where: { $0 < .zero }) { return "a time of the answer is none" }
        let isShort = info.senders.allSatisfy { $0.program?.utf8.count ?? 0 <= BoundedCoding.most }
        return isShort && info.senders.count <= BoundedCoding.most ? nil : "a text or a list is too long"
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

    /// Good parts before and after the part of the bytes.
    package static func recordings(of bytes: [UInt8]) -> [LoopRecording] {
        var received = ReceivedRecordings()
        let parts = [BoundedCoding.decode(from: bytes), part(Numbers()), BoundedCoding.decode(from: bytes)]
        for part in parts.compactMap(\.self) { _ = received.take(part) }
        return received.all
    }

    /// An answer with some extreme numbers and texts, which find more than the middle, or with some changed bytes.
    package static func hostile(_ generator: inout some RandomNumberGenerator) -> [UInt8] {
        let numbers = Numbers(drawnBy: &generator)
        var bytes =
            switch Int.random(in: 0..<3, using: &generator) {
            case 0: BoundedCoding.encode(info(numbers))
            case 1: BoundedCoding.encode(events(numbers))
            default: BoundedCoding.encode(part(numbers))
            }
        if Int.random(in: 0..<4, using: &generator) == 0 {
            let index = Int.random(in: 0..<bytes.count, using: &generator)
            bytes[index] = .random(in: 0...255, using: &generator)
        }
        if Int.random(in: 0..<8, using: &generator) == 0 {
            bytes.removeLast(Int.random(in: 0...bytes.count, using: &generator))
        }
        return bytes
    }

    /// A part of a recording with some extreme numbers.
    package static func hostilePart(_ generator: inout some RandomNumberGenerator) -> [UInt8] {
        BoundedCoding.encode(part(Numbers(drawnBy: &generator)))
    }

    package static let seeds = [
        BoundedCoding.encode(info(Numbers())), BoundedCoding.encode(events(Numbers())),
        BoundedCoding.encode(part(Numbers())), [], BoundedCoding.encode(info(Numbers(extremes: [.max]))),
        BoundedCoding.encode(info(Numbers(extremes: [-1]))),
    ]

    /// The numbers of an answer: the good ones, or an extreme in their place.
    private struct Numbers {
        /// In turn, for each number; nil leaves the number as it is.
        var extremes: [Int?] = [nil]

        init(extremes: [Int?] = [nil]) { self.extremes = extremes }

        init(drawnBy generator: inout some RandomNumberGenerator) {
            let some: [Int?] = [nil, nil, nil, .max, .min, 0, 1, -1, 1 << 62, 1 << 48]
            extremes = (0..<17).map { _ in some.randomElement(using: &generator) ?? nil }
        }

        func callAsFunction(_ number: Int, _ place: Int) -> Int { extremes[place % extremes.count] ?? number }
        func time(_ number: Int, _ place: Int) -> Duration { .nanoseconds(self(number, place)) }

        func instant(_ nanoseconds: Int, _ place: Int) -> ContinuousClock.Instant {
            ContinuousClock.Instant(nanoseconds: UInt64(bitPattern: Int64(self(nanoseconds, place))))
        }

        func text(_ text: String, _ place: Int) -> String {
            extremes[place % extremes.count] == .max ? String(repeating: text, count: 3000) : text
        }
    }

    private static func info(_ n: Numbers) -> PortInfo {
        PortInfo(
            takers: .init(
                hasHandler: true,
                loops: [
                    .init(
                        thread: n(5, 1), threadName: n.text("x", 2), modes: ["default", "m"], running: ["default"],
                        isWaiting: false, callout: "source", busyFor: n.time(1_000_000_000, 3),
                        isBusyForLonger: true, isComputing: true)
                ], queue: .init(label: n.text("q", 4), isBusy: true), waitingThreads: n(1, 5), waitingTasks: n(1, 6),
                servingTasks: n(1, 7), iteratingTasks: n(2, 8), isReceiverAway: true, descriptors: n(1, 9),
                handlingThreads: n(1, 10),
                handlers: .init(count: n(2, 11), limit: n(100, 12), fullLane: n.text("jobs", 13))),
            queue: .init(
                received: n(100, 14), waiting: n(500, 15), limit: n(1000, 16), observed: n.time(300_000_000, 17),
                handled: n(5, 18), waitingBefore: n(500, 19)),
            senders: [
                .init(
                    pid: 8, program: n.text("/bin/y", 20), sent: n(10, 21), recently: n(1, 22), taken: n(1, 23),
                    sinceEmpty: n(10, 24), hasEnded: false, requests: n(1, 25)),
                .init(
                    pid: 7, program: nil, sent: n(90, 26), recently: n(9, 27), taken: n(4, 28),
                    sinceEmpty: n(80, 29), hasEnded: true, requests: 0),
            ],
            requests: .init(
                count: n(1, 30), lasting: n(1, 31),
                oldest: [
                    .init(
                        id: 7, name: n.text("Lookup", 32), pid: 8, program: "y", age: n.time(3_000_000_000, 33),
                        mayLast: false, isReplying: false, isCancelled: true),
                    .init(
                        id: 9, name: nil, pid: 0, program: nil, age: .seconds(2), mayLast: true, isReplying: true,
                        isCancelled: false),
                ]),
            handling: [
                .init(
                    id: 3, name: nil, isRequest: false, pid: 8, program: "y", age: n.time(1_000_000, 34), isOlder: true)
            ], awaited: [.init(port: "1.2", title: n.text("port “x”", 35), replies: n(1, 36), senders: n(2, 37))],
            reportedPools: [
                .init(
                    PoolReport(
                        name: n.text("pool", 38), count: n(2, 39), spares: n(1, 40), waiting: n(3, 41),
                        restarts: n(1, 42),
                        workers: [.init(pid: 9, busy: n(1, 43), requests: n(7, 44), isSpare: false)], tally: .init()))
            ], descriptor: Int32(truncatingIfNeeded: n(12, 45)))
    }

    private static func events(_ n: Numbers) -> PortEvents {
        var packet = PortEvents()
        packet.lost = n(3, 0)
        let extremes = [Double.nan, .infinity, .greatestFiniteMagnitude, -1e300]
        let time = n.extremes[1 % n.extremes.count].map { extremes[Int(UInt($0.magnitude) % 4)] } ?? 1.7e9
        for (kind, duration) in [(.request, nil), (.reply, n.time(2_000_000, 2))] as [(PortEvent.Kind, Duration?)] {
            packet.events.append(
                PortEvent(
                    kind: kind, time: time, number: n(1, 3), id: 7, name: n.text("Lookup", 4),
                    sizes: [n(3, 5), n(0, 6)], size: n(3, 7), ports: n(1, 8), sender: 4711, program: "/bin/x",
                    duration: duration))
        }
        return packet
    }

    private static func part(_ n: Numbers) -> RecordingPart {
        let spans: [LoopRecording.Span] = [
            .init(.pass, mode: "m", depth: n(0, 1), start: n.instant(5, 2), end: n.instant(9, 3)),
            .init(
                .sleep(.init(.timer)), mode: "m", depth: n(1, 4), start: n.instant(6, 5), end: n.instant(7, 6)),
            .init(
                .callout(.init(.source, label: n.text("x", 7), count: n(2, 8))), mode: nil, depth: n(1, 9),
                start: n.instant(7, 10), end: n.instant(8, 11), isOver: false),
        ]
        return RecordingPart(
            number: 0,
            recording: LoopRecording(
                loop: "thread 1", start: n.instant(1, 12), end: n.instant(20, 13), spans: spans, dropped: n(4, 14)))
    }
}
