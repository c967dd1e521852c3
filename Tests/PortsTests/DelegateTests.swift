import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct DelegateTests {
    init() { Sandbox.prepare() }

    private final class Recorder: MachPort.Delegate {
        let ids = Shared<[UInt32]>([])
        let onEnd: @Sendable () -> Void

        init(onEnd: @escaping @Sendable () -> Void = {}) { self.onEnd = onEnd }
        deinit { onEnd() }

        func handle(_ message: MachPort.Message, of port: MachPort) {
            #expect(message.replyPort == port.sendRight)
            ids.withLock { $0.append(message.id) }
        }
    }

    private func send(_ id: UInt32, to port: MachPort) throws {
        try port.sendRight.send(MachPort.Message(id: id, replyPort: port.sendRight))
    }

    @Test func `a delegate handles messages, until a handler takes its place`() throws {
        let port = try MachPort()
        let thread = try served(port)
        let delegate = Recorder()
        try send(1, to: port)
        port.delegate = delegate
        #expect(port.delegate === delegate)
        try send(2, to: port)
        #expect(waitUntil { delegate.ids.withLock { $0 } == [1, 2] })
        let handled = Latch()
        port.setHandler { _ in handled.open() }
        #expect(port.delegate == nil)
        // No delegate is not the same as no handler.
        port.delegate = nil
        try send(3, to: port)
        #expect(handled.wait(until: .patience))
        port.delegate = delegate
        try send(4, to: port)
        #expect(waitUntil { delegate.ids.withLock { $0 } == [1, 2, 4] })
        port.delegate = nil
        try send(5, to: port)
        #expect(try port.receive(before: .patience).id == 5)
        thread.stop()
    }

    @Test func `the port does not keep its delegate, and without it messages wait`() throws {
        let port = try MachPort()
        let thread = try served(port)
        var delegate: Recorder? = Recorder()
        port.delegate = delegate
        try send(1, to: port)
        let ids = try #require(delegate).ids
        #expect(waitUntil { ids.withLock { $0 } == [1] })
        delegate = nil
        #expect(waitUntil { port.delegate == nil })
        try send(2, to: port)
        #expect(try port.receive(before: .patience).id == 2)
        try send(3, to: port)
        let heir = Recorder()
        port.delegate = heir
        #expect(waitUntil { heir.ids.withLock { $0 } == [3] })
        thread.stop()
    }

    @Test func `a delegate may go at any moment, and use the port as it goes`() throws {
        for _ in 0..<200 {
            let port = try MachPort()
            let thread = try served(port)
            let ended = Latch()
            var delegate: Recorder? = Recorder {
                port.delegate = nil
                ended.open()
            }
            port.delegate = delegate
            let right = port.sendRight
            let sender = Helper {
                errorKind {
                    for number in 0..<50 as Range<UInt32> {
                        try right.send(MachPort.Message(id: number, replyPort: right), before: .patience)
                    }
                }
            }
            let ids = try #require(delegate).ids
            delegate = nil
            #expect(ended.wait(until: .patience))
            #expect(sender.value() == "none")
            let handled = ids.withLock { $0 }
            // The rest is still there, in order.
            for number in UInt32(handled.count)..<50 { #expect(try port.receive(before: .patience).id == number) }
            #expect(handled == Array(0..<UInt32(handled.count)))
            thread.stop()
        }
    }

    @Test func `a delegate and its port are let go of when they know only each other`() throws {
        final class Owner: MachPort.Delegate {
            let port: MachPort
            let ended: Latch
            init(_ ended: Latch) throws {
                port = try MachPort()
                self.ended = ended
                port.delegate = self
            }
            deinit { ended.open() }
            func handle(_ message: MachPort.Message, of port: MachPort) {}
        }
        let ended = Latch()
        let right = try Owner(ended).port.sendRight
        #expect(ended.wait(until: .patience))
        #expect(!right.isValid)
    }
}
