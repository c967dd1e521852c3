import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Ports that get messages of their own process and of others at the same time.
@Suite(.ownThread) struct MixedSendersTests {
    let homes: Homes
    let sandbox = Sandbox()

    init() { homes = Homes(sandbox) }

    /// A port of a loop, a right to it in another runtime, and the messages that it has got.
    private struct Served {
        let port: MachPort
        let right: MachPort.SendRight
        let got = Shared<[UInt32]>([])

        init(_ homes: Homes, _ sharedMemory: PortRuntime.SharedMemoryUse) throws {
            let runtime = homes.runtime(sharedMemory)
            let got = got
            port = try MachPort(nameServer: runtime.nameServer) { message in got.withLock { $0.append(message.id) } }
            right = try homes.right(to: port, in: homes.runtime(sharedMemory))
        }

        /// Runs the current loop until the port has got a number of messages.
        func run(untilCount count: Int, returnAfterSourceHandled: Bool) throws -> [UInt32] {
            let deadline = ContinuousClock.now + .seconds(10)
            while got.withLock({ $0.count }) < count, .now < deadline {
                try ThreadRunLoop.current.runInMode(
                    seconds: 0.5, returnAfterSourceHandled: returnAfterSourceHandled)
            }
            return got.withLock { $0 }
        }
    }

    @Test(arguments: [PortRuntime.SharedMemoryUse.whenPossible, .never], [1, 2, 40, 200])
    func `a loop that handles one message a run gets those of other processes, too`(
        _ sharedMemory: PortRuntime.SharedMemoryUse, _ own: Int
    ) throws {
        let served = try Served(homes, sharedMemory)
        try served.port.schedule(in: .current)
        defer { served.port.invalidate() }
        try served.right.send(MachPort.Message(id: 0), before: .patience)
        #expect(try served.run(untilCount: 1, returnAfterSourceHandled: true) == [0])
        // Nothing waits, and the next message of each sender wakes the loop.
        for round in 1...3 as ClosedRange<UInt32> {
            for _ in 0..<own { try served.port.sendRight.send(MachPort.Message(id: round)) }
            try served.right.send(MachPort.Message(id: 100 + round), before: .patience)
            let got = try served.run(untilCount: 1 + Int(round) * (own + 1), returnAfterSourceHandled: true)
            #expect(got.count { $0 == round } == own && got.count { $0 == 100 + round } == 1)
        }
    }

    @Test(arguments: [PortRuntime.SharedMemoryUse.whenPossible, .never])
    func `a port that has come with many messages hears all senders`(_ sharedMemory: PortRuntime.SharedMemoryUse) throws
    {
        let first = homes.runtime(sharedMemory)
        let (home, sender) = (homes.runtime(sharedMemory), homes.runtime(sharedMemory))
        let port = try MachPort(nameServer: first.nameServer)
        let right = try homes.right(to: port, in: sender)
        for _ in 0..<500 { try port.sendRight.send(MachPort.Message(id: 1)) }
        let moved = try homes.received(port, in: home).claim(before: .patience)
        // The loop learns of these before it looks at the port, and then has messages for several turns.
        try right.send(MachPort.Message(id: 2), before: .patience)
        let count = Shared(0)
        moved.setHandler { _ in count.withLock { $0 += 1 } }
        try moved.schedule(in: .current)
        defer { moved.invalidate() }
        let deadline = ContinuousClock.now + .seconds(10)
        while count.withLock({ $0 }) < 501, .now < deadline { try ThreadRunLoop.current.runInMode(seconds: 0.01) }
        #expect(count.withLock { $0 } == 501)
    }
}
