import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Signals whose handlers interrupt system calls.
@Suite(.ownThread) struct SignalTests {
    let sandbox = Sandbox()

    @Test func `no call fails because a signal interrupts it`() throws {
        let desk = try Desk(sandbox)
        let rounds = Scale.count(600, long: 20_000)
        let child = Child("interrupted", "\(rounds)", in: sandbox)
        for _ in 0..<rounds {
            guard let right = try? desk.port.receive(before: .patience).replyPort else { break }
            let mine = try MachPort(nameServer: sandbox.names)
            try right.send(MachPort.Message(id: 2, replyPort: mine.sendRight), before: .patience)
            #expect(try mine.receive(before: .patience).id == 3)
        }
        #expect(child.wait() == 0)
    }
}
