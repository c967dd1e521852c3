import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct StatisticsTests {
    let sandbox = Sandbox()

    @Test func `a port tells how many messages wait and were taken`() throws {
        let port = try MachPort()
        let right = port.sendRight
        #expect(try right.statistics() == .init(received: 0, waiting: 0))
        for _ in 0..<5 { try right.send(MachPort.Message()) }
        #expect(try right.statistics() == .init(received: 0, waiting: 5))
        _ = try port.receive(before: .patience)
        #expect(try right.statistics() == .init(received: 1, waiting: 4))
        for _ in 0..<4 { _ = try port.receive(before: .patience) }
        #expect(try right.statistics() == .init(received: 5, waiting: 0))
    }

    @Test func `a runtime that ends while somebody asks leaves nothing behind`() throws {
        let other = PortRuntime(directory: sandbox.path)
        let goOn = Latch()
        defer { goOn.open() }
        weak var left: Receiver?
        do {
            let runtime = PortRuntime(directory: sandbox.path)
            let port = try MachPort(nameServer: runtime.nameServer)
            try runtime.nameServer.register(port, name: "it")
            try other.nameServer.port(forName: "it").send(MachPort.Message(), before: .patience)
            #expect(waitUntil { runtime.control.watchers(of: port.id.number).count == 1 })
            // The sender does not answer in time.
            try other.housekeeping.perform { _ = goOn.wait(until: .patience) }
            let (receiver, inspector) = (port.receiver, runtime.inspector)
            left = receiver
            try runtime.housekeeping.perform {
                PortObservation(receiver, inspector, for: .milliseconds(100)).begin { _ in }
            }
            let isAsked = Latch()
            try runtime.housekeeping.perform { isAsked.open() }
            #expect(isAsked.wait(until: .patience))
        }
        #expect(waitUntil { left == nil })
        withExtendedLifetime(other) {}
    }

    @Test func `asking makes nobody miss a message`() throws {
        let port = try MachPort()
        let count = Shared(0)
        port.setHandler { _ in count.withLock { $0 += 1 } }
        let loop = try served(port)
        let stop = Shared(false)
        let asker = Helper { () -> Bool in
            while !stop.withLock({ $0 }) { _ = port.receiver.look().statistics }
            return true
        }
        for _ in 0..<2000 { try port.sendRight.send(MachPort.Message(), before: .patience) }
        #expect(waitUntil { count.withLock { $0 } == 2000 })
        // One at a time: none of them has another one behind it that would bring it along.
        for number in 2001...2200 {
            try port.sendRight.send(MachPort.Message(), before: .patience)
            #expect(waitUntil { count.withLock { $0 } == number })
        }
        stop.withLock { $0 = true }
        #expect(asker.value() == true)
        loop.stop()
    }

    @Test func `a message that is counted before its loop looks is handled all the same`() throws {
        let (handled, busy, release) = (Latch(), Latch(), Latch())
        let port = try MachPort { _ in handled.open() }
        let thread = try served(port)
        try thread.loop.perform {
            busy.open()
            _ = release.wait(until: .patience)
        }
        #expect(busy.wait(until: .patience))
        try port.sendRight.send(MachPort.Message())
        #expect(port.receiver.look().statistics == .init(received: 0, waiting: 1))
        release.open()
        #expect(handled.wait(until: .patience))
        thread.stop()
    }

    @Test func `what a sender says to have sent and never comes is given up`() throws {
        let port = try MachPort()
        port.receiver.counts.withLock { $0.note(sent: 3, by: .random()) }
        #expect(port.receiver.look().statistics == .init(received: 0, waiting: 3))
        #expect(waitUntil { port.receiver.look().statistics == .init(received: 0, waiting: 0) })
        try port.sendRight.send(MachPort.Message())
        #expect(port.receiver.look().statistics == .init(received: 0, waiting: 1))
    }

    @Test func `a count that comes late does not look like messages that wait`() {
        var (counts, taken) = (StatisticsCounts(), 0)
        let began = MonotonicInstant.now
        func statistics(after seconds: Int) -> PortStatistics {
            counts.statistics(taken: taken, ownSent: 0, isEmpty: true, now: began + .seconds(seconds))
        }
        // A message is taken before its sender has reported the count.
        taken += 3
        #expect(statistics(after: 0) == .init(received: 3, waiting: 0))
        counts.note(sent: 3, by: .random())
        #expect(statistics(after: 0) == .init(received: 3, waiting: 0))
        // Another sender is never asked.
        taken += 2
        #expect(statistics(after: 1) == .init(received: 5, waiting: 0))
        #expect(statistics(after: 3) == .init(received: 5, waiting: 0))
        counts.note(sent: 1, by: .random())
        #expect(statistics(after: 3) == .init(received: 5, waiting: 1))
    }

    @Test func `what other processes have sent counts, of those that are gone too`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
        let right = port.sendRight
        let stays = Child("bytes", "30", "10", in: sandbox)
        #expect(waitUntil { (try? right.statistics().waiting) == 30 })
        let goes = Child("send", "20", in: sandbox)
        // It has said how many they were before it ended.
        #expect(waitUntil { (try? right.statistics().waiting) == 50 })
        #expect(goes.wait() == 0)
        for number in 1...40 {
            _ = try port.receive(before: .patience)
            #expect(try right.statistics().received == number)
        }
        #expect(waitUntil { (try? right.statistics()) == .init(received: 40, waiting: 10) })
        for _ in 0..<10 { _ = try port.receive(before: .patience) }
        #expect(try right.statistics() == .init(received: 50, waiting: 0))
        stays.kill()
    }

    @Test func `a stopped owner tells nothing, and a dead one is an error`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        var count = 0
        while (try? right.send(MachPort.Message(), before: .now + .milliseconds(100))) != nil { count += 1 }
        #expect(waitUntil { (try? right.statistics()) == .init(received: 0, waiting: count) })
        child.stop()
        #expect(errorKind { _ = try right.statistics(before: .now + .milliseconds(50)) } == "receiveTimedOut")
        child.kill()
        #expect(waitUntil { !right.isValid })
        #expect(throws: PortError.isInvalid(port: right.identity)) { _ = try right.statistics() }
    }
}
