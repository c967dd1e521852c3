import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Who is told what of a message that has come.
@Suite(.ownThread) struct PortMessageTests {
    private final class Switchboard: MachPort.Delegate, Sendable {
        let calls = Shared<[(id: UInt32, port: ObjectIdentifier)]>([])

        func handle(_ message: MachPort.Message, of port: MachPort) {
            calls.withLock { $0.append((message.id, ObjectIdentifier(port))) }
        }
    }

    @Test func `a delegate of several ports is told to which a message came`() throws {
        let switchboard = Switchboard()
        let ports = [try MachPort(), try MachPort()]
        for port in ports {
            port.delegate = switchboard
            try port.schedule(in: .current, forMode: "switchboard")
        }
        for (id, port) in ports.enumerated() {
            try port.sendRight.send(MachPort.Message(id: UInt32(id)))
            _ = try ThreadRunLoop.current.runInMode("switchboard", seconds: 20, returnAfterSourceHandled: true)
        }
        let calls = switchboard.calls.withLock { $0 }
        #expect(calls.map(\.id) == [0, 1])
        #expect(calls.map(\.port) == ports.map(ObjectIdentifier.init))
        for port in ports { port.invalidate() }
    }

    @Test func `a message says what is in it, and who has sent it`() throws {
        let port = try MachPort()
        let right = port.sendRight
        let message = MachPort.Message(id: 7, [.bytes([1, 2]), .port(right)], replyPort: right)
        #expect("\(message)" == "message 7: 2 bytes, \(right), reply to \(right)")
        try right.send(MachPort.Message())
        #expect("\(try port.receive(before: .patience))" == "message 0 of process \(getpid()): empty")
    }

    @Test func `bytes that are sent without an array arrive as such, with their reply port`() throws {
        let (port, mine) = (try MachPort(), try MachPort())
        let numbers: [UInt16] = [1, 258]
        try port.sendRight.send(id: 3, bytes: numbers.span.bytes, replyPort: mine.sendRight)
        let message = try port.receive(before: .patience)
        #expect(message.id == 3)
        #expect(message.components == [.bytes([1, 0, 2, 1])])
        #expect(message.replyPort == mine.sendRight)
    }

    @Test func `a message that has come can be sent on as it is, with its reply port`() throws {
        let (first, second, mine) = (try MachPort(), try MachPort(), try MachPort())
        let components: [MachPort.Message.Component] = [.bytes([1, 2]), .port(second.sendRight), .bytes([])]
        try first.sendRight.send(MachPort.Message(id: 9, components, replyPort: mine.sendRight))
        try second.sendRight.send(first.receive(before: .patience))
        let message = try second.receive(before: .patience)
        #expect(message.id == 9)
        #expect(message.components == components)
        #expect(message.replyPort == mine.sendRight)
    }
}
