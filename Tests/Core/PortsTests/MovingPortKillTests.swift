import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Processes that are killed while a port moves between them.
@Suite(.ownThread) struct MovingPortKillTests {
    let sandbox = Sandbox()

    enum Victim: CaseIterable { case oldOwner, newOwner, nobody }

    /// The reports of the holders about one sender's messages.
    private struct Line {
        /// The numbers, by the holder. The reports of two holders come in no order.
        var numbers: [pid_t: [Int]] = [:]
        var last: Int { numbers.values.compactMap(\.last).max() ?? 0 }
    }

    private static let senders = 2

    /// Sends numbers to the port until there is an error.
    private func sender(_ right: MachPort.SendRight, _ index: Int, _ sent: Shared<[Int]>) throws -> RunLoopThread {
        try RunLoopThread { _ in
            var number = 1
            while true {
                let bytes = withUnsafeBytes(of: number) { Array($0) }
                let message = MachPort.Message(id: UInt32(index), bytes: bytes)
                guard (try? right.send(message, before: .patience)) != nil else { return }
                sent.withLock { $0[index] = number }
                number += 1
                if number % 16 == 0 { usleep(200) }
            }
        }
    }

    @Test(arguments: Victim.allCases)
    func `a port whose holders are killed is at one home, or gone for all`(_ victim: Victim) throws {
        let rounds = Scale.count(6, long: 120)
        let survivals = try (0..<rounds).count { try play(victim, $0) }
        Scale.show("\(victim) killed: the port lives on in \(survivals) of \(rounds) rounds")
    }

    @Test(arguments: Sandbox.hasRings ? ["move-often", "lend-often"] : ["move-often"])
    func `moves and loans leave no descriptor behind`(_ command: String) throws {
        let desk = try Desk(sandbox)
        let child = Child(command, "\(Scale.count(20, long: 300))", in: sandbox)
        let report = try desk.port.receive(before: Scale.patience)
        let after = report.withBytes { bytes in
            bytes.withUnsafeBytes { Int(String(decoding: $0, as: UTF8.self)) ?? .max }
        }
        #expect(after ?? .max <= Int(report.id) + 8)
        withExtendedLifetime(child) {}
    }

    /// - Returns: Whether the port lives on.
    private func play(_ victim: Victim, _ round: Int) throws -> Bool {
        var generator = SplitMix64(seed: UInt64(round) << 8 | UInt64(Victim.allCases.firstIndex(of: victim) ?? 0))
        let desk = try Desk(sandbox, queueLimit: 10_000)
        defer { desk.port.invalidate() }
        let lines = Shared([Line](repeating: Line(), count: Self.senders))
        let refused = Shared(false)
        let old = Child("hold-port", "held", in: sandbox)
        let oldInbox = try desk.report()
        let new = Child("hold-port", in: sandbox)
        let newInbox = try desk.report()
        let collector = try RunLoopThread()
        defer { collector.stop() }
        desk.port.setHandler { message in
            guard message.id >= 100 else { return refused.withLock { $0 = true } }
            let number = message.withBytes { $0.withUnsafeBytes { $0.loadUnaligned(as: Int.self) } } ?? 0
            let holder = message.sender?.pid ?? 0
            lines.withLock { $0[Int(message.id) - 100].numbers[holder, default: []].append(number) }
        }
        try desk.port.schedule(in: collector.loop)
        let right = try sandbox.names.port(forName: "held", before: .patience)
        let sent = Shared([Int](repeating: 0, count: Self.senders))
        let threads = try (0..<Self.senders).map { try sender(right, $0, sent) }
        #expect(waitUntil { lines.withLock { $0.allSatisfy { $0.last > 20 } } })

        try oldInbox.send(MachPort.Message(id: 2, [.port(newInbox)]), before: .patience)
        usleep(UInt32(generator.next() % 60_000))
        switch victim {
        case .oldOwner: old.kill()
        case .newOwner: new.kill()
        case .nobody: break
        }
        // The port lives, and gets further messages, or it is gone.
        let before = sent.withLock { $0 }
        let settles = waitUntil {
            !right.isValid
                || lines.withLock { lines in
                    lines.indices.allSatisfy { lines[$0].last > before[$0] + 100 }
                }
        }
        #expect(settles)
        let isValid = right.isValid
        let found = try? sandbox.names.port(forName: "held", before: .patience)
        #expect(found == (isValid ? right : nil))
        let other = PortRuntime(directory: sandbox.path)
        #expect((try? other.nameServer.port(forName: "held", before: .patience)) == (isValid ? right : nil))
        // Ends the senders.
        old.kill()
        new.kill()
        #expect(waitUntil { !right.isValid })
        for thread in threads { thread.stop() }
        for thread in threads { thread.join() }
        for line in lines.withLock({ $0 }) {
            // Without a gap, a double, or a number out of order.
            let all = line.numbers[old.pid, default: []] + line.numbers[new.pid, default: []]
            #expect(all == Array(1..<all.count + 1))
        }
        if victim == .nobody { #expect(isValid) }
        return withExtendedLifetime(other) { isValid }
    }
}
