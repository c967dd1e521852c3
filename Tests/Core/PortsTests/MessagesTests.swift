import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Messages taken by tasks. No test blocks its thread: tasks have few of them.
@Suite(.ownThread) struct MessagesTests {
    let sandbox = Sandbox()

    /// Sends numbered messages from a thread of its own.
    private func send(_ numbers: Range<UInt32>, to right: MachPort.SendRight) -> Helper<PortError?> {
        Helper {
            portError { for number in numbers { try right.send(MachPort.Message(id: number), before: .patience) } }
        }
    }

    @Test func `a task gets the messages in order, also those that came before`() async throws {
        let port = try MachPort(queueLimit: 10)
        try sendNow(0..<5, to: port.sendRight)
        let sender = send(5..<2000, to: port.sendRight)
        var ids: [UInt32] = []
        for await message in port.messages {
            ids.append(message.id)
            if ids.count == 2000 { break }
        }
        #expect(ids == Array(0..<2000))
        #expect(await sender.ended() == .some(nil))
    }

    private func sendNow(_ numbers: Range<UInt32>, to right: MachPort.SendRight) throws {
        for number in numbers { try right.send(MachPort.Message(id: number), before: .distantPast) }
    }

    @Test func `a task that takes one message at a time leaves the others in the queue`() async throws {
        let port = try MachPort(queueLimit: 4)
        var count: UInt32 = 0
        while (try? sendNow(count..<count + 1, to: port.sendRight)) != nil { count += 1 }
        var messages = port.messages.makeAsyncIterator()
        #expect(await messages.next()?.id == 0)
        // All but the one taken are still where any other taker finds them.
        for number in 1..<count { #expect(try receiveNow(port) == number) }
        #expect(throws: PortError.receiveTimedOut(port: port.identity)) { _ = try receiveNow(port) }
    }

    private func receiveNow(_ port: MachPort) throws -> UInt32 { try port.receive(before: .distantPast).id }

    @Test func `the messages end when the port is invalidated`() async throws {
        for round in 0..<50 {
            let port = try MachPort()
            async let count = port.messages.reduce(0) { count, _ in count + 1 }
            try sendNow(0..<3, to: port.sendRight)
            if round % 2 == 0 { await Task.yield() }
            port.invalidate()
            #expect(await count <= 3)
            var after = port.messages.makeAsyncIterator()
            #expect(await after.next() == nil)
        }
    }

    @Test func `cancelling ends the messages, and takes none with it`() async throws {
        let port = try MachPort()
        for round in 0..<50 {
            let taker = Task { await port.messages.reduce(into: []) { $0.append($1.id) } }
            if round % 2 == 0 { try sendNow(7..<8, to: port.sendRight) }
            if round % 4 < 2 { await Task.yield() }
            taker.cancel()
            let taken = await taker.value
            #expect(taken == [] || taken == [7])
            // What it has not taken is there.
            while (try? receiveNow(port)) != nil {}
        }
        try sendNow(1..<2, to: port.sendRight)
        #expect(try await port.receive(before: .patience).id == 1)
    }

    @Test func `receiving suspends until a message comes, or the deadline`() async throws {
        let port = try MachPort()
        let began = ContinuousClock.now
        await #expect(throws: PortError.receiveTimedOut(port: port.identity)) {
            _ = try await port.receive(before: began + .milliseconds(30))
        }
        #expect(began.duration(to: .now) >= .milliseconds(30))
        async let message = port.receive(before: .patience)
        await Task.yield()
        try sendNow(3..<4, to: port.sendRight)
        #expect(try await message.id == 3)
        let waiting = Task { try await port.receive() }
        await Task.yield()
        waiting.cancel()
        await #expect(throws: CancellationError.self) { _ = try await waiting.value }
        port.invalidate()
        await #expect(throws: PortError.isInvalid(port: port.identity)) { _ = try await port.receive() }
    }

    @Test func `tasks, a loop and threads take every message once`() async throws {
        let total: UInt32 = 20_000
        let handled = Shared<[UInt32: Int]>([:])
        let (all, port) = (Shared<MachPort?>(nil), try MachPort(queueLimit: 100))
        all.withLock { $0 = port }
        @Sendable func note(_ message: MachPort.Message) {
            let count = handled.withLock { handled in
                handled[message.id, default: 0] += 1
                return handled.count
            }
            if count == total {
                // Not inside the handler, which the end would wait for.
                _ = Helper { () -> Bool in
                    all.withLock { $0 }?.invalidate()
                    return true
                }
            }
        }
        port.setHandler { note($0) }
        let loop = try served(port)
        let threads = (0..<2).map { _ in
            Helper { errorKind { while true { note(try port.receive(before: .patience)) } } }
        }
        let right = port.sendRight
        let senders = (0..<4 as Range<UInt32>).map { send($0 * total / 4..<($0 + 1) * total / 4, to: right) }
        await withTaskGroup { group in
            for _ in 0..<3 {
                group.addTask { for await message in port.messages { note(message) } }
            }
        }
        for sender in senders { #expect(await sender.ended() == .some(nil)) }
        for thread in threads { #expect(["becameInvalid", "isInvalid"].contains(await thread.ended() ?? "it hangs")) }
        #expect(handled.withLock { $0.count == total && $0.values.allSatisfy { $0 == 1 } })
        loop.stop()
        all.withLock { $0 = nil }
    }

    @Test func `messages come on the executor of the task that asks`() async throws {
        let port = try MachPort()
        let thread = try await RunLoopThread()
        let sender = send(0..<100, to: port.sendRight)
        let wasThere = await Task(executorPreference: thread.loop.taskExecutor) {
            var count = 0
            for await _ in port.messages {
                if thread.loop.isCurrent { count += 1 }
                if count == 100 { break }
            }
            return count
        }.value
        #expect(wasThere == 100)
        #expect(await sender.ended() == .some(nil))
        thread.stop()
    }

    @Test func `a task gets the messages of another process`() async throws {
        let desk = try Desk(sandbox)
        let child = Child("send", "5000", in: sandbox)
        for number in 0..<5000 as Range<UInt32> {
            let message = try await desk.port.receive(before: .patience)
            #expect(message.id == number)
            #expect(message.sender?.pid == child.pid)
        }
    }

    @Test func `a task that waits keeps no thread and leaves no descriptor behind`() async throws {
        let ports = try (0..<200).map { _ in try MachPort() }
        let before = openDescriptors()
        let tasks = ports.map { port in Task { await port.messages.reduce(0) { count, _ in count + 1 } } }
        for port in ports { try sendNow(0..<1, to: port.sendRight) }
        for port in ports { port.invalidate() }
        for task in tasks { #expect(await task.value <= 1) }
        // The ports' own go too, in a while.
        #expect(await waitUntil { openDescriptors() - before < 100 })
    }
}
