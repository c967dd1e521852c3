import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports
@testable import PortsInspection

@Suite(.ownThread) struct PortMonitorTests {
    let sandbox = Sandbox()

    private func isMonitored(_ port: MachPort) -> Bool { !port.receiver.intake.taps.isEmpty }

    @Test func `messages that a loop handles are seen, also by another process, until nobody looks`() throws {
        let (port, other) = (try MachPort(nameServer: sandbox.names) { _ in }, try MachPort())
        try sandbox.names.register(port, name: "monitored")
        let thread = try served(port)
        let runtime = PortRuntime(directory: sandbox.path)
        let right = try runtime.nameServer.port(forName: "monitored", before: .patience)
        try port.sendRight.send(MachPort.Message(id: 1))
        // The loop has taken it before anybody looks.
        #expect(waitUntil { port.receiver.intake.totals.taken == 1 })
        var monitor: PortMonitor? = try PortMonitor(right, before: .patience)
        let components: [MachPort.Message.Component] = [.bytes([1, 2, 3]), .port(other.sendRight), .bytes([])]
        try port.sendRight.send(MachPort.Message(id: 5, components))
        let taken = try #require(try monitor?.next(before: .patience))
        #expect(taken.kind == .message)
        #expect(taken.id == 5)
        #expect(taken.number == 1)
        #expect(taken.duration == nil)
        #expect(taken.size == 3)
        #expect(taken.sizes == [3, 0, 0])
        #expect(taken.ports == 1)
        #expect(taken.sender == getpid())
        #expect(taken.program?.isEmpty == false)
        #expect(abs(taken.time - Double(Glibc.time(nil))) < 1000)
        let handled = try #require(try monitor?.next(before: .patience))
        #expect(handled.kind == .handled)
        #expect(handled.number == 1)
        #expect(handled.duration ?? .zero > .zero)

        // Another handler is seen as the first one was, and a frame as a local message.
        port.setHandler { _ in }
        try right.send(MachPort.Message(id: 6, bytes: [UInt8](repeating: 1, count: 100)), before: .patience)
        let frame = try #require(try monitor?.next(before: .patience))
        #expect(frame.kind == .message)
        #expect(frame.id == 6)
        #expect(frame.size == 100)
        #expect(frame.sender == getpid())
        #expect(monitor?.lostCount == 0)
        #expect(isMonitored(port))
        monitor = nil
        #expect(waitUntil { !isMonitored(port) && PortRuntime.shared.inspector.openCount == 0 })
        try port.sendRight.send(MachPort.Message())
        #expect(waitUntil { port.receiver.look().statistics.received == 4 })
        thread.stop()
    }

    @Test func `what threads and tasks take is seen`() async throws {
        let port = try MachPort()
        let monitor = try await PortMonitor(port.sendRight)
        for id in 1...2 as ClosedRange<UInt32> { try await port.sendRight.send(MachPort.Message(id: id)) }
        let thread = Helper { (try? port.receive(before: .patience))?.id ?? 0 }
        #expect(thread.value() == 1)
        #expect(try await port.receive().id == 2)
        for id in 1...2 as ClosedRange<UInt32> { #expect(try await monitor.next(before: .patience)?.id == id) }
        // A port without a handler has none because somebody looks.
        let loop = try await RunLoopThread()
        try port.schedule(in: loop.loop)
        try await port.sendRight.send(MachPort.Message(id: 3))
        #expect(try await port.receive().id == 3)
        port.invalidate()
        for try await event in monitor { #expect(event.id == 3) }
        loop.stop()
    }

    @Test func `replies are seen, and that there are none`() throws {
        let kept = Shared<[ReplyRight]>([])
        let server = try LocalMessagePort { (request: MessagePortRequest) in
            switch request.id {
            case 1: try? request.replyRight?.reply()
            case 2: return
            case 4: try? request.replyRight?.fail(with: RequestFailure("no"))
            default: kept.withLock { $0 += [request.replyRight].compactMap { $0 } }
            }
        }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        let monitor = try PortMonitor(server.sendRight, before: .patience)
        let remote = RemoteMessagePort(server.sendRight)
        _ = try remote.request(id: 1, timeout: .seconds(60))
        #expect(errorKind { _ = try remote.request(id: 2, timeout: .seconds(60)) } == "unanswered")
        let late = Helper { (try? remote.request(id: 3, [7], timeout: .seconds(60))) != nil }
        #expect(waitUntil { !kept.withLock { $0.isEmpty } })
        let right = kept.withLock { $0.removeFirst() }
        try right.reply(with: [8])
        #expect(late.value() == true)
        server.setKind(RequestKind(name: "Lookup"), ofRequests: 4)
        #expect(errorKind { _ = try remote.request(id: 4, timeout: .seconds(60)) } == "failed")
        let events = try (0..<8).map { _ in try #require(try monitor.next(before: .patience)) }
        #expect(events.map(\.kind) == [.request, .reply, .request, .unanswered, .request, .reply, .request, .failure])
        #expect(events.map(\.number) == [1, 1, 2, 2, 3, 3, 4, 4])
        #expect(events.map(\.id) == [1, 1, 2, 2, 3, 3, 4, 4])
        #expect(events.map(\.name) == [nil, nil, nil, nil, nil, nil, "Lookup", "Lookup"])
        #expect(events[1].duration ?? .zero > .zero)
        #expect(events[5].size == 1)
        // An asker that gives up is seen before the end of its request.
        let asker = Task { try await remote.request(id: 5, timeout: .seconds(1000)) }
        #expect(waitUntil { !kept.withLock { $0.isEmpty } })
        asker.cancel()
        let given = try (0..<2).map { _ in try #require(try monitor.next(before: .patience)) }
        #expect(given.map(\.kind) == [.request, .cancelled])
        #expect(given.map(\.id) == [5, 5])
        kept.withLock { $0 = [] }
        #expect(try monitor.next(before: .patience)?.kind == .unanswered)
        thread.stop()
    }

    @Test func `a filter leaves the rest out`() throws {
        let port = try MachPort { _ in }
        let thread = try served(port)
        let program = try #require(ProcessStatus.program(of: getpid()))
        let name = String(program[program.index(after: try #require(program.lastIndex(of: "/")))...])
        let filters: [PortEvent.Filter] = [
            .init(id: 2), .init(minimumSize: 3), .init(sender: getpid(), program: name), .init(program: program),
        ]
        let monitors = try filters.map { try PortMonitor(port.sendRight, filter: $0, before: .patience) }
        let strangers = try PortMonitor(port.sendRight, filter: .init(sender: 1), before: .patience)
        for id in 1...3 as ClosedRange<UInt32> {
            try port.sendRight.send(MachPort.Message(id: id, bytes: [UInt8](repeating: 0, count: Int(id))))
        }
        #expect(try monitors.map { try $0.next(before: .patience)?.id } == [2, 3, 1, 1])
        #expect(errorKind { _ = try strangers.next(before: .now + .milliseconds(20)) } == "receiveTimedOut")
        thread.stop()
    }

    /// Some of the messages are shown, and all others are counted.
    private func expectSomeSeen(
        of count: Int, by monitor: PortMonitor, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        var seen = 0
        while seen + monitor.lostCount < count {
            if try #require(try monitor.next(before: .patience)).kind == .message { seen += 1 }
        }
        // On a busy machine the ends of some messages in their handlers are left out, too.
        #expect((count..<count + count / 2).contains(seen + monitor.lostCount), sourceLocation: sourceLocation)
        #expect(seen > 0, sourceLocation: sourceLocation)
        #expect(monitor.lostCount > 0, sourceLocation: sourceLocation)
    }

    @Test func `of a flood some is seen, and the rest is counted`() throws {
        let count = 20_000
        let port = try MachPort(queueLimit: count) { _ in }
        let monitor = try PortMonitor(port.sendRight, before: .patience)
        for _ in 0..<count { try port.sendRight.send(MachPort.Message()) }
        let thread = try served(port)
        #expect(waitUntil { port.receiver.look().statistics.waiting == 0 })
        try expectSomeSeen(of: count, by: monitor)
        thread.stop()
    }

    @Test func `a monitor is told of no more messages in a second than is promised`() throws {
        let port = try MachPort(queueLimit: 10_000) { _ in }
        let thread = try served(port)
        let start = MonotonicInstant.now
        let monitor = try PortMonitor(port.sendRight, before: .patience)
        let stop = Shared(false)
        let flood = Helper { () -> Int in
            var count = 0
            while !stop.withLock({ $0 }) { if (try? port.sendRight.send(MachPort.Message())) != nil { count += 1 } }
            return count
        }
        var numbers: [Int] = []
        func note(_ event: PortEvent) { if event.kind == .message { numbers.append(event.number) } }
        while start.duration(to: .now) < .milliseconds(700) { note(try #require(try monitor.next(before: .patience))) }
        stop.withLock { $0 = true }
        let count = try #require(flood.value())
        while numbers.count + monitor.lostCount < count { note(try #require(try monitor.next(before: .patience))) }
        let periods = Int(start.duration(to: .now) / .milliseconds(50)) + 1
        #expect(numbers.count <= 256 * periods, "\(numbers.count) in \(periods) periods")
        // A gap in the numbers shows what was left out.
        #expect(numbers == numbers.sorted())
        #expect(Set(numbers).count == numbers.count)
        #expect(monitor.lostCount == 0 || (numbers.last ?? 0) > numbers.count)
        thread.stop()
    }

    @Test func `what a filter refuses is not counted as left out`() throws {
        let count = 20_000
        let port = try MachPort(queueLimit: 2 * count) { _ in }
        let monitor = try PortMonitor(port.sendRight, filter: .init(id: 1, minimumSize: 2), before: .patience)
        let none = try PortMonitor(port.sendRight, filter: .init(id: 2, minimumSize: 2), before: .patience)
        for _ in 0..<count {
            try port.sendRight.send(MachPort.Message(id: 1, bytes: [1, 2]))
            try port.sendRight.send(MachPort.Message(id: 2, bytes: [1]))
        }
        let thread = try served(port)
        #expect(waitUntil { port.receiver.look().statistics.waiting == 0 })
        try expectSomeSeen(of: count, by: monitor)
        #expect(errorKind { _ = try none.next(before: .now + .milliseconds(100)) } == "receiveTimedOut")
        #expect(none.lostCount == 0)
        thread.stop()
    }

    @Test func `a request that nobody takes as one has its end`() throws {
        let port = try MachPort { _ in }
        let thread = try served(port)
        let monitor = try PortMonitor(port.sendRight, before: .patience)
        #expect(throws: PortError.self) { try RemoteMessagePort(port.sendRight).request(id: 3, timeout: .seconds(60)) }
        #expect(try (0..<2).map { _ in try monitor.next(before: .patience)?.kind } == [.request, .unanswered])
        thread.stop()
    }

    @Test func `a filter keeps all of its conditions, or is refused`() throws {
        let port = try MachPort()
        let longest = PortEvent.Filter(
            id: 1, sender: 2, program: String(repeating: "é", count: PortEvent.Filter.mostProgram / 2), minimumSize: 3)
        let question = BoundedCoding.encode(PortQuestion.monitor(longest))
        let packet = QuestionPacket(number: 1, answers: port.receiver.channel.right, question: question)
        var bytes = [UInt8](repeating: 0, count: QuestionPacket.largestSize)
        let size = bytes.withUnsafeMutableBytes { packet.write(to: $0) }
        #expect(bytes.prefix(size).withUnsafeBytes { QuestionPacket($0) } == packet)
        guard case .monitor(longest)? = BoundedCoding.decode(PortQuestion.self, from: question) else {
            Issue.record("the filter has changed")
            return
        }
        _ = try PortMonitor(port.sendRight, filter: longest, before: .patience)
        var longer = longest
        longer.program?.append("x")
        #expect(errorKind { _ = try PortMonitor(port.sendRight, filter: longer, before: .patience) } == "invalidLimit")
    }

    @Test func `a monitor that is removed twice leaves another tap alone`() throws {
        let runtime = PortRuntime(directory: sandbox.path)
        let (port, answers) = (
            try MachPort(nameServer: runtime.nameServer), try MachPort(nameServer: runtime.nameServer)
        )
        let taps = (0..<2).map { _ in PortTap(port.receiver, RequestNotices()) }
        let stream = EventStream(
            .init(), to: AnswerSender(to: answers.receiver.channel) {}, runtime.housekeeping
        ) { _ in }
        #expect(taps[0].add(stream))
        #expect(taps[0].remove(stream))
        #expect(!isMonitored(port))
        #expect(taps[1].add(stream))
        #expect(!taps[0].remove(stream))
        #expect(isMonitored(port))
        #expect(taps[1].remove(stream))
        #expect(!isMonitored(port))
    }

    @Test func `a port that ends with its runtime leaves no monitor`() throws {
        weak var tap: PortTap?
        let asker = PortRuntime(directory: sandbox.path)
        var monitor: PortMonitor?
        do {
            let runtime = PortRuntime(directory: sandbox.path)
            let port = try MachPort(nameServer: runtime.nameServer) { _ in }
            try runtime.nameServer.register(port, name: "ending")
            monitor = try PortMonitor(asker.nameServer.port(forName: "ending", before: .patience), before: .patience)
            tap = port.receiver.intake.taps.first as? PortTap
            #expect(tap != nil)
        }
        #expect(waitUntil { tap == nil })
        withExtendedLifetime(monitor) {}
    }

    @Test func `a monitor that is stopped or dead costs the port nothing for long`() throws {
        let port = try MachPort(nameServer: sandbox.names) { _ in }
        try sandbox.names.register(port, name: "monitored")
        let thread = try served(port)
        let child = Child("monitor", "monitored", in: sandbox)
        #expect(waitUntil { isMonitored(port) })
        child.stop()
        for _ in 0..<5000 { try port.sendRight.send(MachPort.Message(), before: .patience) }
        child.kill()
        #expect(waitUntil { !isMonitored(port) })
        thread.stop()
    }

    @Test func `a port has a bound of monitors`() throws {
        let port = try MachPort()
        let monitors = try (0..<16).map { _ in try PortMonitor(port.sendRight, before: .patience) }
        #expect(errorKind { _ = try PortMonitor(port.sendRight, before: .patience) } == "busy")
        withExtendedLifetime(monitors) {}
    }
}
