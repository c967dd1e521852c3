import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Calls that suspend their task. No test blocks its thread: tasks have few of them.
@Suite(.ownSleepingThread) struct TaskWaitTests {
    let sandbox = Sandbox()

    @Test(arguments: [
        "receive", "bytes", "request", "named", "finish", "ping", "statistics", "lookup", "name", "end", "watch",
        "check-in", "answer", "launch", "worker", "exit", "thread",
    ])
    func `tasks that wait in vain hold up no others, and make no threads`(_ what: String) async throws {
        let desk = try Desk(sandbox)
        let owner = Child("hold", "stopped", in: sandbox)
        let names = sandbox.names
        #expect(await waitUntil { (try? names.registration(forName: "stopped")) ?? nil != nil })
        let child = Child("wait-in-vain", what, "stopped", in: sandbox)
        let message = try await desk.port.receive(before: .now + .seconds(30))
        let bytes = message.bytes ?? []
        let figures = bytes.withUnsafeBytes { Array($0.bindMemory(to: UInt32.self)) }
        try #require(figures.count == 3)
        // Up to a hundred and fifty. A task that waits until the others have their processors back has one or two.
        #expect(figures[2] > 2, "a task had \(figures[2]) turns, and to wait for \(figures[0]) ms")
        // One for each of the machine's, the first, the housekeeping thread, what the log may need, and a worker.
        #expect(Int(figures[1]) <= sysconf(Int32(_SC_NPROCESSORS_ONLN)) + 8, "there were \(figures[1]) threads")
        #expect(await waitUntil { !child.isRunning })
        #expect(child.wait(before: .distantPast) == 0)
        Scale.show("100 tasks, \(what): other tasks paused for \(figures[0]) ms at most, \(figures[1]) threads")
        withExtendedLifetime(owner) {}
    }

    @Test func `a task asks a port's owner for a sign of life and for statistics`() async throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try #require(try await desk.port.receive(before: .patience).replyPort)
        #expect(try await right.ping(before: .patience) > .zero)
        try await right.send(MachPort.Message(id: 1))
        #expect(try await right.statistics(before: .patience).waiting <= 1)
        let own = try MachPort(nameServer: sandbox.names)
        #expect(try await own.sendRight.ping() >= .zero)
        #expect(try await own.sendRight.statistics() == .init(received: 0, waiting: 0))
        own.invalidate()
        await #expect(throws: PortError.isInvalid(port: own.identity)) { _ = try await own.sendRight.ping() }
        await #expect(throws: PortError.isInvalid(port: own.identity)) { _ = try await own.sendRight.statistics() }
        child.stop()
        await #expect(throws: PortError.receiveTimedOut(port: right.identity)) {
            _ = try await right.ping(before: .now + .milliseconds(20))
        }
        await #expect(throws: PortError.receiveTimedOut(port: right.identity)) {
            _ = try await right.statistics(before: .now + .milliseconds(20))
        }
        let cancelled = [
            Task { _ = try await right.ping(before: nil) }, Task { _ = try await right.statistics(before: nil) },
        ]
        for task in cancelled {
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }
        let killed = Task { try await right.statistics(before: nil) }
        child.kill()
        await #expect(throws: PortError.self) { _ = try await killed.value }
    }

    @Test func `a task sends bytes without an array, and waits for room for them`() async throws {
        let port = try MachPort(queueLimit: 1)
        let numbers = [UInt32](repeating: 7, count: 4)
        try await port.sendRight.send(id: 3, bytes: numbers.span.bytes, replyPort: port.sendRight)
        let message = try await port.receive()
        #expect(message.id == 3)
        #expect(message.replyPort == port.sendRight)
        #expect(message.withBytes { $0.byteCount } == 16)
        while (try? await port.sendRight.send(bytes: numbers.span.bytes, before: .distantPast)) != nil {}
        let waiting = Task {
            var bytes: [UInt8] = [1, 2, 3]
            try await port.sendRight.send(id: 4, bytes: bytes.span.bytes)
            bytes[0] = 9
        }
        #expect(await waitUntil { port.sendRight.channel.waiterCount == 1 })
        var last = try await port.receive(before: .patience)
        while last.id != 4 { last = try await port.receive(before: .patience) }
        #expect(last.bytes == [1, 2, 3])
        try await waiting.value
        while (try? await port.sendRight.send(bytes: numbers.span.bytes, before: .distantPast)) != nil {}
        let cancelled = Task { try await port.sendRight.send(bytes: [1 as UInt8].span.bytes) }
        #expect(await waitUntil { port.sendRight.channel.waiterCount == 1 })
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        #expect(port.sendRight.channel.waiterCount == 0)
    }

    @Test func `a task gets the changes of names, and a cancelled one loses none`() async throws {
        let watch = try PortNameWatch(sandbox.names)
        let ports = try (0..<3).map { _ in try MachPort(nameServer: sandbox.names) }
        #expect(try await watch.next(before: .now + .milliseconds(10)) == nil)
        let cancelled = Task { try await watch.next() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        for (number, port) in ports.enumerated() { try sandbox.names.register(port, name: "\(number)") }
        var names: [String] = []
        for try await change in watch.changes {
            switch change {
            case .came(let registration): names.append("+" + registration.name)
            case .went(let registration): names.append("-" + registration.name)
            }
            if names.count == 3 { ports[1].invalidate() }
            if names.count == 4 { break }
        }
        #expect(names.prefix(3).sorted() == ["+0", "+1", "+2"])
        #expect(names.last == "-1")
        // Several tasks share what comes.
        let tasks = (0..<4).map { _ in Task { try await watch.next(before: .patience) } }
        for name in ["a", "b", "c", "d"] { try sandbox.names.register(ports[0], name: name) }
        var came: Set<String> = []
        for task in tasks {
            if case .came(let registration)? = try await task.value { came.insert(registration.name) }
        }
        #expect(came == ["a", "b", "c", "d"])
        let following = Task { for try await _ in watch.changes {} }
        following.cancel()
        await #expect(throws: CancellationError.self) { try await following.value }
        try sandbox.remake()
        // The names that went with the directory may come first.
        await #expect(throws: PortError.self) { for try await _ in watch.changes {} }
    }

    @Test func `a check-in that nobody answers ends with its task`() async throws {
        let silent = try MachPort()
        let checkIn = CheckIn(desk: silent.sendRight, number: 1)
        let task = Task { try await checkIn.complete(with: MachPort(), before: nil) }
        #expect(try await silent.receive(before: .patience).id == CheckIn.messageID)
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let late = Task { try await checkIn.complete(with: MachPort(), before: .now + .milliseconds(20)) }
        await #expect(throws: CheckInError.self) { try await late.value }
        let orphan = Task { try await checkIn.complete(with: MachPort(), before: nil) }
        _ = try await silent.receive(before: .patience)
        _ = try await silent.receive(before: .patience)
        silent.invalidate()
        await #expect(throws: CheckInError.port(.becameInvalid(port: silent.identity))) { try await orphan.value }
    }
}
