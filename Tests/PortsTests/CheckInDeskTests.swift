import OwnThread
import RunLoops
import Testing

@testable import Ports

@Suite(.ownThread) struct CheckInDeskTests {
    let sandbox = Sandbox()

    @Test func `whoever checks in and takes no answer holds up nobody`() throws {
        let name = try PortProcess.current.checkInDesk(for: sandbox.names).registeredName()
        let desk = try sandbox.names.port(forName: name)
        let stuck = try MachPort(queueLimit: 1)
        while (try? stuck.sendRight.send(MachPort.Message(), before: .distantPast)) != nil {}
        let number = [UInt8](repeating: 0, count: 8)
        let (loop, waiting) = (try PortProcess.current.housekeepingLoop(), Shared(0))
        // The thread that serves the desk does something else while an answer waits.
        try #require(
            try waitUntil {
                try desk.send(.init(id: CheckIn.messageID, [.bytes(number)], replyPort: stuck.sendRight))
                loop.perform { waiting.withLock { $0 = max($0, stuck.sendRight.channel.waiterCount) } }
                return waiting.withLock { $0 } > 0
            })
        // As many as ever may want to check in: only so many answers wait.
        for _ in 0..<300 {
            try desk.send(.init(id: CheckIn.messageID, [.bytes(number)], replyPort: stuck.sendRight))
        }
        #expect(stuck.sendRight.channel.waiterCount <= 100)
    }
}
