import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Processes that cannot make or map rings, or get no memory for them.
@Suite(.ownThread, .enabled(if: Sandbox.hasRings)) struct RingShortageTests {
    let sandbox = Sandbox()

    private static let canBeSmall = sanitizerOptions.isEmpty && !isThreadSanitized

    private func send(_ numbers: Range<UInt32>, to right: MachPort.SendRight) throws {
        for number in numbers {
            try right.send(id: number, bytes: numberedBytes(number).span.bytes, before: .patience)
        }
    }

    /// Takes numbered messages, each once and in order.
    private func take(_ numbers: Range<UInt32>, from port: MachPort) throws {
        for number in numbers {
            let message = try port.receive(before: .patience)
            guard message.id == number, message.bytes == numberedBytes(number) else {
                Issue.record("\(message.id) of \(message.bytes?.count ?? -1) bytes came in place of \(number)")
                throw PortError.unavailable(reason: "another message")
            }
        }
    }

    // MARK: Sandboxes

    @Test(arguments: [ENOSYS, EPERM])
    func `an owner that may make no memory gets all messages by ZeroMQ`(_ error: Int32) throws {
        let desk = try Desk(sandbox)
        let child = Child("without-memory", "\(error)", "take-numbered", "200", in: sandbox)
        let right = try desk.report()
        try send(0..<200, to: right)
        #expect(right.carrier == .zeroMQ)
        #expect(child.wait() == 0)
    }

    @Test(arguments: [ENOSYS, EPERM])
    func `a sender that may make no memory sends by rings what fits in them`(_ error: Int32) throws {
        let desk = try Desk(sandbox)
        let child = Child("without-memory", "\(error)", "send-numbered", "200", in: sandbox)
        try take(0..<200, from: desk.port)
        let carriers = try desk.port.receive(before: .patience).bytes ?? []
        #expect(String(decoding: carriers, as: UTF8.self) == "sharedMemory zeroMQ")
        #expect(child.wait() == 0)
    }

    // MARK: Limits

    @Test(.enabled(if: canBeSmall)) func `an owner's rings leave it address space`() throws {
        let desk = try Desk(sandbox)
        let child = Child("in-address-space", "600", "take-numbered", "2000", in: sandbox)
        let own = try desk.report()
        var runtimes: [PortRuntime] = []
        var carriers: Set<MachPort.SendRight.Carrier?> = []
        for number in 0..<40 as Range<UInt32> {
            let runtime = PortRuntime(directory: sandbox.path)
            runtimes.append(runtime)
            let right = try runtime.nameServer.port(forName: "numbered", before: .patience)
            try send((number * 50)..<(number * 50 + 50), to: right)
            #expect(try waitUntil { try own.statistics().received == Int(number * 50 + 50) })
            carriers.insert(right.carrier)
        }
        #expect(carriers.contains(.sharedMemory))
        #expect(child.wait() == 0)
    }

    @Test(.enabled(if: canBeSmall)) func `a sender's rings leave it address space`() throws {
        // All the rings would take 1280 MiB.
        let count = 20
        let ports = try (0..<count).map { number in
            let port = try MachPort(nameServer: sandbox.names)
            try sandbox.names.register(port, name: "port \(number)")
            return port
        }
        let child = Child("in-address-space", "600", "send-to-named", "\(count)", in: sandbox)
        for number in [99, 0, 1] as [UInt32] {
            for port in ports { try take(number..<(number + 1), from: port) }
        }
        #expect(child.wait() == 0)
    }

    @Test(.disabled(if: isThreadSanitized, "the sanitizer itself writes a large file at its start"))
    func `a sender whose files may have no size sends large messages by ZeroMQ`() throws {
        let desk = try Desk(sandbox)
        let child = Child(
            "send-numbered", "200", in: sandbox, wrapper: ["/bin/sh", "-c", "ulimit -f 0; exec \"$@\"", "sh"])
        try take(0..<200, from: desk.port)
        let carriers = try desk.port.receive(before: .patience).bytes ?? []
        #expect(String(decoding: carriers, as: UTF8.self) == "sharedMemory zeroMQ")
        #expect(child.wait() == 0)
    }

    @Test func `a sender without a descriptor for a ring sends when it has some`() throws {
        let desk = try Desk(sandbox)
        let child = Child("send-numbered-without-descriptors", "200", in: sandbox)
        try take(0..<200, from: desk.port)
        #expect(child.wait() == 0)
    }

    @Test func `an owner without a descriptor for a ring is sent to when it has some`() throws {
        let desk = try Desk(sandbox)
        let child = Child("take-numbered-without-descriptors", "200", sandbox.file("more"), in: sandbox)
        let right = try desk.report()
        #expect(try desk.port.receive(before: .patience).id == 1)
        let error = portError {
            try right.send(id: 0, bytes: numberedBytes(0).span.bytes, before: .now + .seconds(2))
        }
        switch error {
        case nil, .cannotConnect, .sendTimedOut: break
        case let error: Issue.record("\(String(describing: error))")
        }
        try sandbox.write("", to: "more")
        try send((error == nil ? 1 : 0)..<200, to: right)
        #expect(child.wait() == 0)
    }

    // MARK: Full memory

    private static let canBeFull = canBeSmall && MemoryGroup.canBeMade
    private static let need: Comment = "only root can limit memory, where cgroups can be made"

    @Test(
        .enabled(if: canBeSmall && MemoryGroup.canRefuse, "memory is refused to nobody without version 1 of cgroups"),
        arguments: [(3000, 64, 100_000), (17 << 20, 60, 4)]
    )
    func `a sender that gets no memory waits for it, as for room`(_ size: Int, _ mebibytes: Int, _ count: Int) throws {
        let group = try MemoryGroup(mebibytes: mebibytes, kills: false)
        let desk = try Desk(sandbox, queueLimit: count)
        let child = Child("fill-ring", "\(count)", "\(size)", group.processes, in: sandbox)
        var (waiting, since) = (0, ContinuousClock.now)
        #expect(
            try waitUntil {
                let now = try desk.port.sendRight.statistics().waiting
                if now > waiting { (waiting, since) = (now, .now) }
                return waiting > 0 && .now > since + .seconds(3)
            })
        #expect(waiting < count)
        #expect(child.isRunning)
        try group.allow(mebibytes: 1000)
        for number in 0..<UInt32(count) {
            let message = try desk.port.receive(before: .patience)
            let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: size)
            guard message.id == number, message.bytes == bytes else {
                Issue.record("\(message.id) came in place of \(number)")
                break
            }
        }
        // The last pages go to a ring one by one, so that the next page of the process's own heap may be the one that it waits
        // for. The memory of a large message that does not get all of it is given back.
        let status = child.wait()
        #expect(status == 0 || size == 3000 && status == 71, "\(status)")
    }

    @Test(.enabled(if: canBeFull, need)) func `a sender that is killed for want of memory has sent a prefix`() throws {
        let group = try MemoryGroup(mebibytes: 32)
        let desk = try Desk(sandbox, queueLimit: 100_000)
        let child = Child("fill-ring", "100000", "3000", in: sandbox, wrapper: group.wrapper)
        #expect(child.wait() == -SIGKILL)
        var next = 0 as UInt32
        while let message = try? desk.port.receive(before: .now + .milliseconds(300)) {
            let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: next), count: 3000)
            guard message.id == next, message.bytes == bytes else {
                Issue.record("\(message.id) came in place of \(next)")
                break
            }
            next += 1
        }
        #expect(next > 1000)
    }

    @Test(.enabled(if: canBeFull, need)) func `senders outlive an owner that is killed for want of memory`() throws {
        let group = try MemoryGroup(mebibytes: 32)
        let desk = try Desk(sandbox)
        let child = Child("keep-all", in: sandbox, wrapper: group.wrapper)
        let right = try desk.report()
        let bytes = [UInt8](repeating: 7, count: 3000)
        let error = portError { while true { try right.send(id: 1, bytes: bytes.span.bytes, before: .patience) } }
        let identity = right.channel.identity
        #expect(error == .becameInvalid(port: identity) || error == .isInvalid(port: identity))
        #expect(child.wait() == -SIGKILL)
    }
}
