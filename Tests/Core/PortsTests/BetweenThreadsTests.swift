import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Messages that stay in one runtime.
@Suite(.ownThread) struct BetweenThreadsTests {
    let sandbox = Sandbox()

    @Test func `the queue limit is exact`() throws {
        let port = try MachPort(queueLimit: 3)
        for id in 0..<3 as Range<UInt32> { try port.sendRight.send(MachPort.Message(id: id), before: .distantPast) }
        let full = PortError.sendTimedOut(port: port.identity)
        #expect(throws: full) { try port.sendRight.send(MachPort.Message(), before: .distantPast) }
        #expect(try port.receive(before: .distantPast).id == 0)
        try port.sendRight.send(MachPort.Message(id: 3), before: .distantPast)
        #expect(throws: full) { try port.sendRight.send(MachPort.Message(), before: .distantPast) }
        for id in 1...3 as ClosedRange<UInt32> { #expect(try port.receive(before: .distantPast).id == id) }
    }

    @Test func `an array arrives as it was sent, without a copy`() throws {
        let port = try MachPort()
        let bytes = [UInt8](repeating: 7, count: 1 << 20)
        let address = bytes.withUnsafeBytes { $0.baseAddress }
        try port.sendRight.send(MachPort.Message([.bytes(bytes)]))
        let message = try port.receive(before: .patience)
        guard case .bytes(let received) = message.components.first else { return #expect(Bool(false)) }
        #expect(received.withUnsafeBytes { $0.baseAddress } == address)
        #expect(message.withBytes { $0.withUnsafeBytes { $0.baseAddress } } == address)
    }

    @Test func `the memory of handled messages is used again, and that of kept ones is not`() throws {
        let addresses = Shared<[UInt]>([])
        let kept = Shared<[MachPort.Message]>([])
        let port = try MachPort { message in
            message.withBytes { bytes in
                let address = bytes.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
                addresses.withLock { $0.append(address) }
            }
            if message.id % 100 == 0 { kept.withLock { $0.append(message) } }
        }
        try port.schedule(in: .current)
        for id in 0..<1000 as Range<UInt32> {
            try withUnsafeBytes(of: id) { try port.sendRight.send(id: id, bytes: $0.bytes) }
            // In this thread: a sender beside a taker that is in the pool makes a message of its own.
            while addresses.withLock({ $0.count }) <= Int(id) {
                try ThreadRunLoop.current.runInMode(.default, seconds: 5, returnAfterSourceHandled: true)
            }
        }
        // One for each kept message, and those in use at a time.
        #expect(Set(addresses.withLock { $0 }).count <= 15)
        for (index, message) in kept.withLock({ $0 }).enumerated() {
            #expect(message.withBytes { $0.unsafeLoad(as: UInt32.self) } == UInt32(index * 100))
        }
    }

    @Test func `a port without messages keeps little memory`() throws {
        let port = try MachPort { _ in }
        let bytes = [UInt8](repeating: 1, count: 4096)
        for _ in 0..<500 { try port.sendRight.send(bytes: bytes.span.bytes) }
        try port.schedule(in: .current)
        try ThreadRunLoop.current.runInMode(.default, seconds: 0)
        while port.receiver.channel.localQueue?.isEmpty == false {
            try ThreadRunLoop.current.runInMode(.default, seconds: 0)
        }
        try ThreadRunLoop.current.runInMode(.default, seconds: 0)
        let queue = try #require(port.receiver.channel.localQueue)
        var count = 0
        let size = try #require(MessagePool.SizeClass(capacity: bytes.count))
        var isBusy = false
        while LocalMessage(released: queue.pool.take(size, &isBusy)) != nil { count += 1 }
        #expect(count <= MessagePool.mostIdle / bytes.count)
    }

    @Test func `a run of the loop in a handler takes the messages behind it`() throws {
        let order = Shared<[UInt32]>([])
        let port = try MachPort { message in
            order.withLock { $0.append(message.id) }
            guard message.id == 0 else { return }
            while order.withLock({ $0.count }) < 100 {
                guard
                    (try? ThreadRunLoop.current.runInMode(.default, seconds: 5, returnAfterSourceHandled: true)) != nil
                else { return }
            }
            order.withLock { $0.append(1000) }
        }
        for id in 0..<100 as Range<UInt32> { try port.sendRight.send(MachPort.Message(id: id)) }
        let thread = try served(port)
        #expect(waitUntil { order.withLock { $0.count } == 101 })
        #expect(order.withLock { $0 } == Array(0..<100) + [1000])
        thread.stop()
    }

    @Test func `another loop takes what comes while a handler is busy`() throws {
        let others = Shared(0)
        let (isBusy, mayGoOn) = (Latch(), Latch())
        let port = try MachPort { message in
            if message.id == 0 {
                isBusy.open()
                _ = mayGoOn.wait(until: .patience)
            } else {
                others.withLock { $0 += 1 }
            }
        }
        let threads = [try served(port), try served(port)]
        try port.sendRight.send(MachPort.Message(id: 0))
        #expect(isBusy.wait(until: .patience))
        // To a list that is open, without a bell.
        for id in 1...100 as ClosedRange<UInt32> { try port.sendRight.send(MachPort.Message(id: id)) }
        #expect(waitUntil { others.withLock { $0 } == 100 })
        mayGoOn.open()
        for thread in threads { thread.stop() }
    }

    @Test func `senders of both kinds have their turns while both flood`() throws {
        let names = PortNameServer(directory: sandbox.path)
        let counts = Shared<[Int]>([0, 0])
        let port = try MachPort(queueLimit: 100, nameServer: names) { message in
            counts.withLock { $0[Int(message.id)] += 1 }
        }
        try names.register(port, name: "flooded")
        let other = PortRuntime(directory: sandbox.path)
        let rights = [port.sendRight, try other.nameServer.port(forName: "flooded", before: .patience)]
        let isOver = Shared(false)
        let senders = rights.enumerated().map { index, right in
            Helper {
                while !isOver.withLock({ $0 }) {
                    try? right.send(MachPort.Message(id: UInt32(index)), before: .now + .milliseconds(100))
                }
            }
        }
        let thread = try served(port)
        #expect(waitUntil { counts.withLock { $0.allSatisfy { $0 >= 20_000 } } })
        isOver.withLock { $0 = true }
        for sender in senders { sender.join() }
        thread.stop()
    }

    @Test func `a loop sleeps though a message waits for a handler`() throws {
        let port = try MachPort()
        let thread = try served(port)
        let passes = Shared(0)
        try thread.loop.add(ThreadRunLoop.Observer(.afterWaiting) { _, _ in passes.withLock { $0 += 1 } })
        try port.sendRight.send(MachPort.Message(id: 7))
        #expect(waitUntil { passes.withLock { $0 } > 0 })
        let before = passes.withLock { $0 }
        for _ in 0..<100 {
            let isDone = Latch()
            try thread.loop.perform { isDone.open() }
            thread.loop.wakeUp()
            #expect(isDone.wait(until: .patience))
        }
        // A loop that does not sleep goes through thousands.
        #expect(passes.withLock { $0 } - before < 300)
        port.setHandler { message in passes.withLock { $0 = -Int(message.id) } }
        #expect(waitUntil { passes.withLock { $0 } < 0 })
        thread.stop()
    }

    @Test func `a bell is no message that waits`() throws {
        let port = try MachPort()
        try port.sendRight.send(MachPort.Message())
        #expect(try port.sendRight.statistics(before: .patience) == PortStatistics(received: 0, waiting: 1))
        _ = try port.receive(before: .distantPast)
        #expect(try port.sendRight.statistics(before: .patience) == PortStatistics(received: 1, waiting: 0))
    }

    @Test func `messages of a peer behind a bell are still counted, and come`() throws {
        let names = PortNameServer(directory: sandbox.path)
        let port = try MachPort(nameServer: names)
        try names.register(port, name: "counted")
        let other = PortRuntime(directory: sandbox.path)
        let right = try other.nameServer.port(forName: "counted", before: .patience)
        try port.sendRight.send(MachPort.Message(id: 1))
        try right.send(MachPort.Message(id: 2))
        #expect(try port.receive(before: .patience).id == 1)
        #expect(waitUntil { (try? right.statistics(before: .patience)) == PortStatistics(received: 1, waiting: 1) })
        #expect(try port.receive(before: .patience).id == 2)
    }

    /// `zmq_bind` reads what the descriptor would report; it also makes the descriptor readable again.
    @Test func `a message waits at a port that becomes known to other processes`() throws {
        let names = PortNameServer(directory: sandbox.path)
        let handled = Shared(0)
        let port = try MachPort(nameServer: names) { _ in handled.withLock { $0 += 1 } }
        try port.schedule(in: .current)
        for count in 1...2 {
            try port.sendRight.send(MachPort.Message())
            if count == 2 { try names.register(port, name: "known") }
            try ThreadRunLoop.current.runInMode(.default, seconds: 5, returnAfterSourceHandled: true)
            #expect(handled.withLock { $0 } == count)
            // The port finds nothing more, and closes its list.
            try ThreadRunLoop.current.runInMode(.default, seconds: 0)
        }
    }

    @Test func `an invalid port lets go of what waits for it`() throws {
        weak var channel: SendChannel?
        let isReleased = Shared(false)
        do {
            let port = try MachPort()
            channel = port.sendRight.channel
            // The message keeps a right to the port it waits for.
            try port.sendRight.send(MachPort.Message([.port(port.sendRight)], replyPort: port.sendRight))
            port.onInvalidation { isReleased.withLock { $0 = true } }
        }
        #expect(isReleased.withLock { $0 })
        // A thread that looks through all channels may have it for a moment.
        #expect(waitUntil { channel == nil })
    }
}
