import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Sends that suspend their task. No test blocks its thread: tasks have few of them.
@Suite(.ownThread) struct DeferredSendTests {
    let sandbox = Sandbox()

    /// How many messages the port's queue has taken.
    private func fill(_ right: MachPort.SendRight) -> UInt32 {
        var count: UInt32 = 0
        while (try? right.send(MachPort.Message(id: count), before: .distantPast)) != nil { count += 1 }
        return count
    }

    private func blocked(_ right: MachPort.SendRight, id: UInt32) -> Helper<String> {
        Helper { errorKind { try right.send(MachPort.Message(id: id), before: .patience) } }
    }

    private func sending(_ right: MachPort.SendRight, id: UInt32) -> Task<Void, any Error> {
        Task { try await right.send(MachPort.Message(id: id), before: .patience) }
    }

    private func waiters(_ right: MachPort.SendRight, _ count: Int) async -> Bool {
        await waitUntil { right.channel.waiterCount == count }
    }

    private func next(_ port: MachPort) async throws -> UInt32 { try await port.receive(before: .patience).id }

    @Test func `tasks and threads get room in the order they came`() async throws {
        let port = try MachPort(queueLimit: 2)
        let right = port.sendRight
        let count = fill(right)
        let first = sending(right, id: count)
        #expect(await waiters(right, 1))
        let second = blocked(right, id: count + 1)
        #expect(await waiters(right, 2))
        let third = sending(right, id: count + 2)
        #expect(await waiters(right, 3))
        let fourth = blocked(right, id: count + 3)
        #expect(await waiters(right, 4))
        for number in 0..<count + 4 { #expect(try await next(port) == number) }
        try await first.value
        try await third.value
        #expect(await second.ended() == "none")
        #expect(await fourth.ended() == "none")
        #expect(await waiters(right, 0))
    }

    /// The thread that sends it is held up, as if the process was stopped.
    @Test func `a posted message has its time when the process has not run`() async throws {
        let port = try MachPort(queueLimit: 2)
        let right = port.sendRight
        let count = fill(right)
        let (isHeld, end) = (Promise<Void>(), Latch())
        defer { end.open() }
        let thread = right.channel.channels.housekeeping
        try thread.perform {
            isHeld.set(())
            _ = end.wait(until: .distantFuture)
        }
        #expect(await waitUntil { isHeld.value != nil })
        let outcome = Promise<Bool>()
        let time = Duration.milliseconds(400)
        let start = ContinuousClock.now
        try right.post(MachPort.Message(id: count), within: time) { outcome.set($0 == nil) }
        #expect(await waitUntil { ContinuousClock.now - start > time + time })
        end.open()
        for _ in 1...2 {
            let turn = Promise<Void>()
            try thread.perform { turn.set(()) }
            #expect(await waitUntil { turn.value != nil })
        }
        #expect(outcome.value == nil)
        for number in 0...count { #expect(try await next(port) == number) }
        #expect(await waitUntil { outcome.value != nil })
        #expect(outcome.value == true)
    }

    private func find(_ name: String, _ runtime: PortRuntime?) throws -> MachPort.SendRight {
        try #require(try runtime?.nameServer.port(forName: name, before: .patience))
    }

    @Test func `a runtime that ends sends what was posted before, and takes no more`() async throws {
        let port = try MachPort(queueLimit: 2, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "full")
        let runtime = PortRuntime(directory: sandbox.path)
        try runtime.setFlushBound(.seconds(60))
        let right = try find("full", runtime)
        let count = fill(right)
        let outcome = Promise<Bool>()
        try right.post(MachPort.Message(id: count), within: .seconds(60)) { outcome.set($0 == nil) }
        let end = Helper { runtime.close() }
        #expect(await waitUntil { runtime.channels.isFlushing.load(ordering: .acquiring) })
        #expect(throws: PortError.isEnding) { try right.post(MachPort.Message(), within: .seconds(60)) { _ in } }
        for number in 0...count { #expect(try await next(port) == number) }
        await end.ended()
        #expect(outcome.value == true)
    }

    @Test func `a task's send fails with the end of its runtime`() async throws {
        let port = try MachPort(byteLimit: 1000, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "full")
        var runtime: PortRuntime? = PortRuntime(directory: sandbox.path)
        try runtime?.setFlushBound(.zero)
        let right = try find("full", runtime)
        let count = fill(right)
        let error = Shared<(any Error)?>(nil)
        let sender = sending(right, id: count)
        Task { if case .failure(let failure) = await sender.result { error.withLock { $0 = failure } } }
        #expect(await waiters(right, 1))
        // The thread that performs the sender's steps is between two runs of its loop.
        let (isBetween, gate) = (Shared(false), Latch())
        let loop = try #require(try runtime?.housekeeping.loop())
        try loop.add(
            ThreadRunLoop.Observer(.exit) { _, _ in
                isBetween.withLock { $0 = true }
                _ = gate.wait(until: .patience)
            })
        loop.stop()
        #expect(await waitUntil { isBetween.withLock { $0 } })
        runtime = nil
        gate.open()
        #expect(await waitUntil { error.withLock { $0 } != nil })
        #expect(error.withLock { $0 as? PortError } == .isEnding)
    }

    @Test func `many tasks send through a short queue, each its messages in order`() async throws {
        let port = try MachPort(queueLimit: 3)
        let right = port.sendRight
        try await withThrowingTaskGroup { group in
            for sender in 0..<8 as Range<UInt32> {
                group.addTask {
                    for number in 0..<500 as Range<UInt32> {
                        try await right.send(MachPort.Message(id: sender << 16 | number), before: .patience)
                    }
                }
            }
            var next = [UInt32](repeating: 0, count: 8)
            for _ in 0..<4000 {
                let id = try await port.receive(before: .patience).id
                #expect(next[Int(id >> 16)] == id & 0xffff)
                next[Int(id >> 16)] += 1
            }
            try await group.waitForAll()
        }
    }

    @Test func `a message that found no room in time was not sent`() async throws {
        let port = try MachPort(queueLimit: 2)
        let right = port.sendRight
        let count = fill(right)
        for delay in [Duration.milliseconds(-1), .milliseconds(30)] {
            let began = ContinuousClock.now
            await #expect(throws: PortError.sendTimedOut(port: port.identity)) {
                try await right.send(MachPort.Message(id: 99), before: began + delay)
            }
            #expect(began.duration(to: .now) >= delay)
        }
        for number in 0..<count { #expect(try await next(port) == number) }
        await #expect(throws: PortError.receiveTimedOut(port: port.identity)) {
            _ = try await port.receive(before: .distantPast)
        }
    }

    @Test func `a cancelled message was not sent, and the next in line goes on`() async throws {
        let port = try MachPort(queueLimit: 2)
        let right = port.sendRight
        let count = fill(right)
        let first = sending(right, id: 98)
        #expect(await waiters(right, 1))
        let second = blocked(right, id: count)
        #expect(await waiters(right, 2))
        let third = sending(right, id: count + 1)
        #expect(await waiters(right, 3))
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        for number in 0..<count + 2 { #expect(try await next(port) == number) }
        #expect(await second.ended() == "none")
        try await third.value
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await right.send(MachPort.Message(id: 97))
        }
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        await #expect(throws: PortError.receiveTimedOut(port: port.identity)) {
            _ = try await port.receive(before: .distantPast)
        }
    }

    @Test func `cancelling at any moment sends a message once or not at all`() async throws {
        let port = try MachPort(queueLimit: 1)
        let right = port.sendRight
        for round in 0..<200 {
            let count = fill(right)
            let task = sending(right, id: 77)
            if round % 2 == 0 { #expect(await waiters(right, 1)) }
            let reader = Helper { (try? port.receive(before: .patience))?.id }
            task.cancel()
            let isSent = (try? await task.value) != nil
            #expect(await reader.ended() == .some(0))
            for number in 1..<count { #expect(try await next(port) == number) }
            if isSent { #expect(try await next(port) == 77) }
            await #expect(throws: PortError.receiveTimedOut(port: port.identity)) {
                _ = try await port.receive(before: .distantPast)
            }
        }
    }

    @Test func `a thread that waits for room does not hold up the task of its own that waits before it`() async throws {
        let port = try MachPort(queueLimit: 1)
        let right = port.sendRight
        let count = fill(right)
        let thread = try await RunLoopThread()
        let task = Task(executorPreference: thread.loop.taskExecutor) {
            try await right.send(MachPort.Message(id: count), before: .patience)
        }
        #expect(await waiters(right, 1))
        let error = Shared("it hangs")
        try thread.loop.perform {
            let kind = errorKind { try right.send(MachPort.Message(id: count + 1), before: .patience) }
            error.withLock { $0 = kind }
        }
        #expect(await waiters(right, 2))
        for number in 0..<count + 2 { #expect(try await next(port) == number) }
        try await task.value
        #expect(await waitUntil { error.withLock { $0 } == "none" })
        thread.stop()
    }

    @Test func `a task of the loop that serves the port waits while the loop makes room`() async throws {
        let thread = try await RunLoopThread()
        let port = try MachPort(queueLimit: 2) { _ in }
        try port.schedule(in: thread.loop)
        try await Task(executorPreference: thread.loop.taskExecutor) {
            for _ in 0..<100 { try await port.sendRight.send(MachPort.Message(), before: .patience) }
        }.value
        thread.stop()
    }

    @Test func `suspended senders learn of the end`() async throws {
        let port = try MachPort(queueLimit: 1)
        let right = port.sendRight
        _ = fill(right)
        let tasks = (0..<4 as Range<UInt32>).map { sending(right, id: $0) }
        #expect(await waiters(right, 4))
        port.invalidate()
        for task in tasks {
            await #expect(throws: PortError.becameInvalid(port: port.identity)) { try await task.value }
        }
        await #expect(throws: PortError.isInvalid(port: port.identity)) {
            try await right.send(MachPort.Message())
        }
    }

    // MARK: Processes

    /// A right to a port of a process that this one has no connection to.
    private func unconnected(_ name: String) async throws -> MachPort.SendRight {
        let directory = try PortRuntime.shared.registry.directory(sandbox.path)
        #expect(await waitUntil { (try? directory.entry(name)).flatMap(\.self) != nil })
        let entry = try #require(try directory.entry(name))
        #expect(!PortRuntime.shared.control.isConnected(to: entry.right.id.incarnation))
        return MachPort.SendRight(PortRuntime.shared.channels.channel(to: entry.right))
    }

    @Test func `a first send connects, and the end of the process ends the one that is suspended`() async throws {
        let child = Child("hold", "held", in: sandbox)
        let right = try await unconnected("held")
        // A deadline that has passed is no reason not to connect.
        try await right.send(MachPort.Message(), before: .distantPast)
        let flood = Task { while true { try await right.send(MachPort.Message()) } }
        #expect(await waiters(right, 1))
        child.kill()
        await #expect(throws: PortError.self) { try await flood.value }
        #expect(await waitUntil { !right.isValid })
    }

    @Test func `a send to a process that does not answer ends when it is cancelled, or cannot connect`() async throws {
        let child = Child("hold", "held", in: sandbox)
        let right = try await unconnected("held")
        child.stop()
        let task = Task { try await right.send(MachPort.Message()) }
        await Task.yield()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        do {
            try await right.send(MachPort.Message(), before: .distantPast)
            Issue.record("it was sent")
        } catch {
            #expect(kind(error as? PortError) == "cannotConnect")
        }
        let last = sending(right, id: 1)
        await Task.yield()
        child.signal(SIGCONT)
        try await last.value
    }
}
