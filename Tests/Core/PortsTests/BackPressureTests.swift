import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Receivers that stop reading.
@Suite(.ownThread) struct BackPressureTests {
    let sandbox = Sandbox()

    /// Another process, with a port that nobody reads until it is told to, and one that sends messages back.
    private struct Hoarder {
        let child: Child
        let desk: Desk
        let full: MachPort.SendRight
        let echo: MachPort.SendRight
        let control: MachPort.SendRight

        init(queueLimit: Int, _ sandbox: Sandbox) throws {
            desk = try Desk(sandbox)
            child = Child("hoard", "\(queueLimit)", in: sandbox)
            let report = try desk.port.receive(before: .patience)
            control = try #require(report.replyPort)
            let rights = report.components.compactMap { if case .port(let right) = $0 { right } else { nil } }
            try #require(rights.count == 2)
            (full, echo) = (rights[0], rights[1])
        }

        /// What it has taken, and how much heap it has come to use.
        func figures() throws -> [Int] {
            try control.send(MachPort.Message(id: 2), before: .patience)
            return try next(3)
        }

        func startReading() throws {
            try control.send(MachPort.Message(id: 1), before: .patience)
            _ = try next(3)
        }

        func next(_ id: UInt32) throws -> [Int] {
            let message = try desk.port.receive(before: .patience)
            #expect(message.id == id)
            return message.withBytes { $0.withUnsafeBytes { Array($0.bindMemory(to: Int.self)) } } ?? []
        }
    }

    // MARK: Order

    @Test func `whoever waits for room gets it before those who come later`() throws {
        let port = try MachPort(queueLimit: 2)
        let right = port.sendRight
        for _ in 0..<50 {
            while (try? right.send(MachPort.Message(id: 0), before: .distantPast)) != nil {}
            let first = Helper { errorKind { try right.send(MachPort.Message(id: 1), before: .patience) } }
            #expect(waitUntil(before: Scale.patience) { right.channel.waiterCount == 1 })
            // Room comes in batches.
            var ids: [UInt32] = []
            let deadline = ContinuousClock.Instant.patience
            repeat {
                if let message = try? port.receive(before: .distantPast) { ids.append(message.id) }
            } while (try? right.send(MachPort.Message(id: 2), before: .distantPast)) == nil && !deadline.hasPassed
            #expect(first.value() == "none")
            while let message = try? port.receive(before: .distantPast) { ids.append(message.id) }
            #expect(ids.filter { $0 != 0 } == [1, 2])
        }
    }

    /// A wake-up without room would cost each message of many waiting senders another switch of threads.
    @Test func `the next sender is woken once there is room, by the sender before or by the port`() throws {
        let port = try MachPort(queueLimit: 2)
        let channel = port.sendRight.channel
        for _ in 0..<2 { try port.sendRight.send(MachPort.Message()) }
        let waiters = (0..<3).map { _ in CountingWaiter() }
        for waiter in waiters { channel.join(waiter) }
        channel.leave(waiters[0])
        #expect(waiters[1].count == 0)
        _ = try port.receive(before: .distantPast)
        #expect(waiters[1].count == 1)
        // As if it had found no time to send.
        channel.leave(waiters[1])
        #expect(waiters[2].count == 1)
        channel.leave(waiters[2])
    }

    @Test(arguments: [1, 2, 3])
    func `many senders at a full queue lose nothing`(_ limit: Int) throws {
        let (streams, senders, each) = (Streams(), 16, 200)
        let port = try MachPort(queueLimit: limit) { streams.note($0) }
        let thread = try RunLoopThread()
        try port.schedule(in: thread.loop)
        let helpers = (0..<senders).map { stream in
            Helper { portError { try Streams.flood(port.sendRight, stream: UInt32(stream), count: each) } }
        }
        for helper in helpers { #expect(helper.value() == .some(nil)) }
        streams.expect(0..<senders, each: each)
    }

    // MARK: Memory

    @Test(arguments: [(size: 100, limit: 2000), (size: 64 << 10, limit: 50)])
    func `what waits for a receiver that stops reading is bounded on both sides`(_ size: Int, _ limit: Int) throws {
        try Self.bounded(senders: Scale.count(2, long: 16), size: size, limit: limit, sandbox)
    }

    static func bounded(senders: Int, size: Int, limit: Int, _ sandbox: Sandbox) throws {
        let hoarder = try Hoarder(queueLimit: limit, sandbox)
        let children = (0..<senders).map { _ in Child("press", "\(size)", in: sandbox) }
        let ready = try children.map { _ in try hoarder.desk.report() }
        for child in ready { try child.send(MachPort.Message([.port(hoarder.full)]), before: .patience) }
        // The queues at both ends; between them what the kernel takes, and the batches in libzmq's hands.
        let between = (256 << 10) / size + 2
        // A message in a queue has its frame, its header, and its place there; in the receiver's, a small one may be the
        // only one in a buffer of libzmq's.
        let cost = size + 256
        let costAtReceiver = cost + (size < 8 << 10 ? 19 << 10 : 0)
        var (accepted, mostAccepted, mostHeap) = (0, 0, 0)
        for _ in children {
            let figures = try hoarder.next(2)
            accepted += figures[0]
            mostAccepted = max(mostAccepted, figures[0])
            mostHeap = max(mostHeap, figures[1])
        }
        let heap = try hoarder.figures()[1]
        #expect(mostAccepted >= limit)
        #expect(mostAccepted <= 2 * limit + between)
        #expect(mostHeap <= (limit + 2) * cost + 256 << 10)
        #expect(heap <= senders * ((limit + 2) * costAtReceiver + 256 << 10))
        Scale.show(
            "\(senders) senders of \(size) bytes to a limit of \(limit): at most \(mostAccepted) are accepted from one; "
                + "heap of a sender \(mostHeap >> 10) KiB, of the receiver \(heap >> 10) KiB; "
                + "the limit's messages have \((limit * size) >> 10) KiB")
        try hoarder.startReading()
        for child in children { #expect(child.wait(before: Scale.patience) == 0) }
        #expect(try waitUntil(before: Scale.patience) { try hoarder.figures()[0] == accepted + senders })
    }

    // MARK: Deadlines

    /// How late a sender was told, and how much of the time it had worked.
    private struct Wait: Sendable {
        let late: Duration
        let work: Duration
        let error: String
    }

    @Test func `each of four senders keeps its deadline, works nothing meanwhile, and goes on when there is room`()
        throws
    {
        try Self.deadlines(rounds: Scale.count(2, long: 100), sandbox)
    }

    static func deadlines(rounds: Int, _ sandbox: Sandbox) throws {
        let hoarder = try Hoarder(queueLimit: 4, sandbox)
        let full = hoarder.full
        let echoes = try roundTrips(to: hoarder, 50)
        // So large that nothing but the queues holds them.
        let message = MachPort.Message([.bytes([UInt8](repeating: 1, count: 200_000))])
        // On a busy machine libzmq's thread may not run for a while.
        while (try? full.send(message, before: .now + .milliseconds(500))) != nil {}
        let senders = [40, 80, 120, 160].map { milliseconds in
            Helper {
                (0..<rounds).map { _ in
                    let (worked, deadline) = (threadTime(), ContinuousClock.now + .milliseconds(milliseconds))
                    let error = errorKind { try full.send(message, before: deadline) }
                    return Wait(late: deadline.duration(to: .now), work: threadTime() - worked, error: error)
                }
            }
        }
        let echoesMeanwhile = try roundTrips(to: hoarder, 50)
        var (late, work) = (Times(), Times())
        for sender in senders {
            let waits = try #require(sender.value(before: Scale.patience))
            #expect(waits.allSatisfy { $0.error == "sendTimedOut" && $0.late >= .zero })
            late.add(waits.map(\.late))
            work.add(waits.map(\.work))
        }
        // A thread that looks again and again would have worked all the time.
        #expect(work.percentile(50) < .milliseconds(10))
        #expect(full.channel.waiterCount == 0)
        Scale.show("told of the deadline late by \(late.summary)")
        Scale.show("processor time of a wait of 40 to 160 ms: \(work.summary)")
        Scale.show("round trips by another port before: \(echoes.summary)")
        Scale.show("round trips by another port meanwhile: \(echoesMeanwhile.summary)")
        if Scale.isMeasured { #expect(late.percentile(99) <= .milliseconds(10)) }

        let patient = (0..<4).map { _ in Helper { portError { try full.send(message, before: Scale.patience) } } }
        #expect(waitUntil { full.channel.waiterCount == 4 })
        try hoarder.startReading()
        for sender in patient { #expect(sender.value() == .some(nil)) }
    }

    private static func roundTrips(to hoarder: Hoarder, _ count: Int) throws -> Times {
        let mine = try MachPort(nameServer: PortNameServer(directory: hoarder.full.channel.path))
        var times = Times()
        for number in 0..<UInt32(count) {
            let began = ContinuousClock.now
            try hoarder.echo.send(MachPort.Message(id: number, replyPort: mine.sendRight), before: .patience)
            #expect(try mine.receive(before: .patience).id == number)
            times.add(began.duration(to: .now))
        }
        return times
    }
}

private final class CountingWaiter: Waiter {
    private let wakes = Shared(0)

    var count: Int { wakes.withLock { $0 } }

    func wake() { wakes.withLock { $0 += 1 } }
}
