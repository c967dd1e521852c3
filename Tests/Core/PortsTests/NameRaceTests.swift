import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Many processes that want one name.
@Suite(.ownThread) struct NameRaceTests {
    let sandbox = Sandbox()

    @Test func `of many processes that race for a name one gets it, as often as it is free`() throws {
        try Self.race(Scale.count(20, long: 200), rounds: Scale.count(3, long: 6), sandbox)
    }

    static func race(_ count: Int, rounds: Int, _ sandbox: Sandbox) throws {
        let desk = try Desk(sandbox)
        var runners: [(child: Child, right: MachPort.SendRight)] = []
        func start() throws {
            let child = Child("race", "wanted", in: sandbox)
            runners.append((child, try desk.report()))
        }
        for _ in 0..<count { try start() }
        var times = Times()
        for round in 0..<rounds {
            let begin = MonotonicInstant.now + .milliseconds(100)
            let bytes = withUnsafeBytes(of: begin.nanoseconds) { Array($0) }
            for runner in runners { try runner.right.send(MachPort.Message(id: 1, [.bytes(bytes)]), before: .patience) }
            var winners: [MachPort.Message] = []
            var losers: [pid_t?] = []
            for _ in runners {
                let message = try desk.port.receive(before: Scale.patience)
                switch message.id {
                case 10: winners.append(message)
                case 11: losers.append(message.withBytes { $0.unsafeLoadUnaligned(as: pid_t.self) })
                default: Issue.record("message \(message.id)")
                }
            }
            times.add(begin.duration(to: .now))
            #expect(winners.count == 1)
            #expect(losers.count == count - 1)
            let winner = try #require(winners.first)
            let owner = try #require(winner.replyPort)
            #expect(losers.allSatisfy { $0 == winner.sender?.pid })
            #expect(try sandbox.names.port(forName: "wanted", before: .patience) == owner)
            // The name is free again when its owner gives it up, is killed, or ends.
            let index = try #require(runners.firstIndex { $0.right == owner })
            if round % 3 == 0 {
                try owner.send(MachPort.Message(id: 2), before: .patience)
                #expect(try desk.port.receive(before: .patience).id == 12)
            } else {
                if round % 3 == 1 {
                    runners[index].child.kill()
                } else {
                    try owner.send(MachPort.Message(id: 3), before: .patience)
                }
                #expect(runners.remove(at: index).child.wait() == (round % 3 == 1 ? -SIGKILL : 0))
                try start()
            }
            #expect(errorKind { _ = try sandbox.names.port(forName: "wanted") } == "nameNotFound")
        }
        Scale.show("\(count) processes race for a name, \(rounds) times: one gets it; all know after \(times.summary)")
    }

    @Test func `a name that goes from hand to hand is never in two`() throws {
        try Self.contend(Scale.count(8, long: 100), times: Scale.count(5, long: 10), sandbox)
    }

    static func contend(_ count: Int, times: Int, _ sandbox: Sandbox) throws {
        let began = ContinuousClock.now
        let children = (0..<count).map { _ in Child("contend", "hot", "\(times)", in: sandbox) }
        for child in children { #expect(child.wait(before: Scale.patience) == 0) }
        #expect(sandbox.files == [])
        Scale.show("\(count) processes have a name in turns, \(times) times each, in \(began.duration(to: .now))")
    }
}
