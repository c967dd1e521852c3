import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Ports whose loop waits awake for the next message.
@Suite(.ownThread) struct PolledPortTests {
    private let sandbox: Sandbox
    /// Another runtime, as in another process.
    private let other: PortRuntime

    init() {
        sandbox = Sandbox()
        other = PortRuntime(directory: sandbox.path)
    }

    /// A thread whose loop serves the port, and polls for an hour: what it did not see meanwhile would be missed.
    private func polled(_ port: MachPort) throws -> RunLoopThread {
        let thread = try RunLoopThread()
        thread.loop.pollingNanoseconds.store(3_600_000_000_000, ordering: .relaxed)
        try port.schedule(in: thread.loop)
        return thread
    }

    /// A right of the other runtime to the port.
    private func remote(_ port: MachPort) throws -> MachPort.SendRight {
        try PortNameServer(directory: sandbox.path).register(port, name: "polled")
        return try other.nameServer.port(forName: "polled", before: .patience)
    }

    @Test func `two loops that poll answer each other`() throws {
        let (isOver, count) = (Latch(), 4000 as UInt32)
        let there = try MachPort { message in
            try? message.replyPort?.send(MachPort.Message(id: message.id))
        }
        let back = try MachPort()
        let next = Shared<UInt32>(0)
        back.setHandler { message in
            let expected = next.withLock { next in
                next += 1
                return next - 1
            }
            #expect(message.id == expected)
            if expected + 1 == count { return isOver.open() }
            try? there.sendRight.send(MachPort.Message(id: expected + 1, replyPort: back.sendRight))
        }
        let threads = [try polled(there), try polled(back)]
        try there.sendRight.send(MachPort.Message(id: 0, replyPort: back.sendRight))
        // Loops that have one processor between them are slow, but do not stand still.
        var seen: UInt32
        repeat { seen = next.withLock { $0 } } while !isOver.wait(until: .patience) && next.withLock { $0 } > seen
        #expect(isOver.isOpen)
        for thread in threads { thread.stop() }
    }

    @Test func `messages of all senders arrive in order, whoever looks at the port meanwhile`() throws {
        let streams = Streams()
        let port = try MachPort(queueLimit: 50) { message in
            streams.note(message)
            // A run in the handler takes what comes next.
            if message.id % 97 == 0 { _ = try? ThreadRunLoop.current.runInMode(.default, seconds: 0) }
        }
        let remote = try self.remote(port)
        let thread = try RunLoopThread()
        try thread.loop.setPollingTime(.microseconds(30))
        try port.schedule(in: thread.loop)
        let each = 3000
        let senders = [port.sendRight, port.sendRight, remote].enumerated().map { index, right in
            Helper {
                var random = SplitMix64(seed: UInt64(index))
                for number in 0..<UInt32(each) {
                    let bytes = withUnsafeBytes(of: UInt32(index)) { Array($0) }
                    try? right.send(id: number, bytes: bytes.span.bytes, before: .patience)
                    // Some pauses are longer than the loop polls.
                    if number % 64 == 0 { usleep(UInt32(random.next() % 100)) }
                }
            }
        }
        let isOver = Shared(false)
        let asker = Helper { while !isOver.withLock({ $0 }) { _ = port.receiver.look().statistics } }
        streams.expect(0..<3, each: each)
        isOver.withLock { $0 = true }
        for helper in senders + [asker] { helper.join() }
        thread.stop()
    }

    @Test func `a message of another process ends the polling`() throws {
        let handled = Shared(0)
        let port = try MachPort { _ in handled.withLock { $0 += 1 } }
        let remote = try self.remote(port)
        let thread = try polled(port)
        for count in 1...50 {
            try (count % 3 == 0 ? port.sendRight : remote).send(MachPort.Message())
            #expect(waitUntil { handled.withLock { $0 } == count })
        }
        thread.stop()
    }

    @Test func `who asks for statistics hides no message from a loop that polls`() throws {
        let handled = Shared(0)
        let port = try MachPort { _ in handled.withLock { $0 += 1 } }
        let remote = try self.remote(port)
        let thread = try polled(port)
        for count in 1...200 {
            try remote.send(MachPort.Message())
            #expect(
                waitUntil {
                    _ = port.receiver.look().statistics
                    return handled.withLock { $0 } == count
                })
        }
        thread.stop()
    }

    @Test func `a thread and a second loop get messages of a port whose loop polls`() throws {
        let (isBusy, mayGoOn, others) = (Latch(), Latch(), Shared(0))
        let port = try MachPort { message in
            if message.id == 1 {
                isBusy.open()
                _ = mayGoOn.wait(until: .patience)
            } else {
                others.withLock { $0 += 1 }
            }
        }
        let first = try polled(port)
        try port.sendRight.send(MachPort.Message(id: 0))
        #expect(waitUntil { others.withLock { $0 } == 1 })
        try port.sendRight.send(MachPort.Message(id: 1))
        #expect(isBusy.wait(until: .patience))
        let receiver = Helper { try? port.receive(before: .patience).id }
        try port.sendRight.send(MachPort.Message(id: 2))
        #expect(receiver.value() == 2)
        let second = try polled(port)
        try port.sendRight.send(MachPort.Message(id: 3))
        #expect(waitUntil { others.withLock { $0 } == 2 })
        mayGoOn.open()
        for id in 4...20 as ClosedRange<UInt32> {
            try port.sendRight.send(MachPort.Message(id: id))
            #expect(waitUntil { others.withLock { $0 } == Int(id) - 1 })
        }
        for thread in [first, second] { thread.stop() }
    }

    @Test func `a loop that polls gets what a thread leaves of several messages`() throws {
        let handled = Shared(0)
        let port = try MachPort { _ in handled.withLock { $0 += 1 } }
        let thread = try polled(port)
        var (sent, received) = (0, 0)
        for _ in 0..<2000 {
            for _ in 0..<3 { try port.sendRight.send(MachPort.Message()) }
            sent += 3
            if (try? port.receive(before: .distantPast)) != nil { received += 1 }
            #expect(waitUntil { handled.withLock { $0 } + received == sent })
        }
        thread.stop()
    }

    @Test func `a port that leaves a loop that polls is served by the next`() throws {
        let handled = Shared<[UInt32]>([])
        let port = try MachPort { message in handled.withLock { $0.append(message.id) } }
        for id in 0..<20 as Range<UInt32> {
            let thread = try polled(port)
            try port.sendRight.send(MachPort.Message(id: id))
            #expect(waitUntil { handled.withLock { $0 }.last == id })
            port.remove(from: thread.loop)
            thread.stop()
        }
    }

    @Test func `invalidating a port ends the polling for it`() throws {
        let handled = Shared(0)
        let port = try MachPort { _ in handled.withLock { $0 += 1 } }
        let thread = try polled(port)
        try port.sendRight.send(MachPort.Message())
        #expect(waitUntil { handled.withLock { $0 } == 1 })
        port.invalidate()
        let performed = Latch()
        try thread.loop.perform { performed.open() }
        #expect(performed.wait(until: .patience))
        #expect(waitUntil { thread.loop.isWaiting })
        thread.stop()
    }

    @Test func `credit of a byte limit comes back to senders of other processes while the loop polls`() throws {
        let handled = Shared(0)
        let port = try MachPort(byteLimit: 4096) { _ in handled.withLock { $0 += 1 } }
        let remote = try self.remote(port)
        let thread = try polled(port)
        let bytes = [UInt8](repeating: 1, count: 1000)
        for _ in 0..<100 { try remote.send(bytes: bytes.span.bytes, before: .patience) }
        #expect(waitUntil { handled.withLock { $0 } == 100 })
        thread.stop()
    }
}
