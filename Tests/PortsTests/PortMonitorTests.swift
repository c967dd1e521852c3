import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct PortMonitorTests {
    let sandbox = Sandbox()

    private func isMonitored(_ port: MachPort) -> Bool { port.receiver.state.withLock { $0.tapped != nil } }

    @Test func `messages that a loop handles are seen, also by another process, until nobody looks`() throws {
        let (port, other) = (try MachPort(nameServer: sandbox.names) { _ in }, try MachPort())
        try sandbox.names.register(port, name: "monitored")
        let thread = try served(port)
        let runtime = PortRuntime(directory: sandbox.path)
        let right = try runtime.nameServer.port(forName: "monitored", before: .patience)
        try port.sendRight.send(MachPort.Message(id: 1))
        var monitor: PortMonitor? = try PortMonitor(right, before: .patience)
        let components: [MachPort.Message.Component] = [.bytes([1, 2, 3]), .port(other.sendRight), .bytes([])]
        try port.sendRight.send(MachPort.Message(id: 5, components))
        let taken = try #require(try monitor?.next(before: .patience))
        #expect(taken.kind == .message && taken.id == 5 && taken.number == 1 && taken.duration == nil)
        #expect(taken.size == 3 && taken.sizes == [3, 0, 0] && taken.ports == 1 && taken.sender == getpid())
        #expect(taken.program?.isEmpty == false && abs(taken.time - Double(Glibc.time(nil))) < 1000)
        let handled = try #require(try monitor?.next(before: .patience))
        #expect(handled.kind == .handled && handled.number == 1 && handled.duration ?? .zero > .zero)

        // Another handler is seen as the first one was, and a frame as a local message.
        port.setHandler { _ in }
        try right.send(MachPort.Message(id: 6, bytes: [UInt8](repeating: 1, count: 100)), before: .patience)
        let frame = try #require(try monitor?.next(before: .patience))
        #expect(frame.kind == .message && frame.id == 6 && frame.size == 100 && frame.sender == getpid())
        #expect(monitor?.lostCount == 0 && isMonitored(port))
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
        let events = try (0..<6).map { _ in try #require(try monitor.next(before: .patience)) }
        #expect(events.map(\.kind) == [.request, .reply, .request, .unanswered, .request, .reply])
        #expect(events.map(\.number) == [1, 1, 2, 2, 3, 3] && events.map(\.id) == [1, 1, 2, 2, 3, 3])
        #expect(events[1].duration ?? .zero > .zero && events[5].size == 1)
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

    @Test func `of a flood some is seen, and the rest is counted`() throws {
        let count = 20_000
        let port = try MachPort(queueLimit: count) { _ in }
        let monitor = try PortMonitor(port.sendRight, before: .patience)
        for _ in 0..<count { try port.sendRight.send(MachPort.Message()) }
        let thread = try served(port)
        #expect(waitUntil { port.receiver.look().statistics.waiting == 0 })
        var seen = 0
        while seen + monitor.lostCount < count {
            if try #require(try monitor.next(before: .patience)).kind == .message { seen += 1 }
        }
        #expect(seen + monitor.lostCount == count && seen > 0 && monitor.lostCount > 0)
        thread.stop()
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
