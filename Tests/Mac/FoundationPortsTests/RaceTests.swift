import Foundation
import FoundationPorts
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct RaceTests {
    /// Ends a port at any moment of its life, from the handler, the loop's thread, a sender's or another.
    @Test func `whenever a port ends, its loop goes on, its sender learns the end, and nothing keeps the port`() throws
    {
        var random = SplitMix64(seed: drawnSeed())
        let modes = [RunLoop.Mode.default, RunLoop.Mode("other")]
        let steady = NSMachPort()
        for mode in modes { RunLoop.current.add(steady, forMode: mode) }
        for round in 0..<200 {
            weak var weakPort: NSMachPort?
            let notices = Shared(0)
            let right: MachPort.SendRight
            let (helpers, token): ([Helper<Bool>], any NSObjectProtocol)
            do {
                let port = NSMachPort()
                (weakPort, right) = (port, try #require(port.sendRight))
                token = NotificationCenter.default.addObserver(
                    forName: Port.didBecomeInvalidNotification, object: port, queue: nil
                ) { notice in
                    // When the port is released, an object of another test may have its address.
                    if (notice.object as? SendRightPort)?.sendRight == right { notices.withLock { $0 += 1 } }
                }
                let who = round % 4
                let after = Int(random.next() % 8)
                var count = 0
                let receiver = Receiver { message in
                    count += 1
                    if who == 0, count > after { message.receivePort?.invalidate() }
                }
                port.setDelegate(receiver)
                helpers = [
                    Helper {
                        var sent = 0
                        while port.send(sent, before: .patience) {
                            sent += 1
                            if who == 1, sent > after { port.invalidate() }
                        }
                        return true
                    },
                    Helper {
                        if who == 2 {
                            for _ in 0..<after { sched_yield() }
                            port.invalidate()
                        }
                        return true
                    },
                ]
                var turn = 0
                while port.isValid {
                    let mode = modes[Int(random.next() % 2)]
                    RunLoop.current.add(port, forMode: mode)
                    _ = RunLoop.current.run(mode: mode, before: .now + 0.001)
                    if random.next() % 2 == 0 { RunLoop.current.remove(port, forMode: mode) }
                    turn += 1
                    if who == 3, turn > after { port.invalidate() }
                }
                for mode in modes { RunLoop.current.remove(port, forMode: mode) }
            }
            for helper in helpers { #expect(helper.value() == true) }
            NotificationCenter.default.removeObserver(token)
            #expect(notices.withLock { $0 } == 1)
            #expect(!right.isValid)
            waitUntil { weakPort == nil }
            #expect(weakPort == nil)
        }
        steady.invalidate()
        for mode in modes { #expect(!RunLoop.current.run(mode: mode, before: .patience)) }
    }
}
