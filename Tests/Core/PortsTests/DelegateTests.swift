import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct DelegateTests {
    private final class Recorder: MachPort.Delegate, Sendable {
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
        final class Owner: MachPort.Delegate, Sendable {
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

    /// A delegate that only the thread uses that has made it.
    private final class Counter: MachPort.Delegate {
        var ids: [UInt32] = []
        let (madeOn, ended): (ThreadRunLoop, @Sendable (Bool) -> Void)

        init(ended: @escaping @Sendable (Bool) -> Void = { _ in }) {
            madeOn = .current
            self.ended = ended
        }
        deinit { ended(madeOn.isCurrent) }

        func handle(_ message: MachPort.Message, of port: MachPort) {
            ids.append(message.id)
            if message.id == 3 { madeOn.stop() }
        }
    }

    @Test func `a delegate that is not Sendable works on its thread's loop`() throws {
        let port = try MachPort()
        let right = port.sendRight
        let handled = Helper {
            let counter = Counter()
            port.setLocalDelegate(counter)
            #expect(port.delegate == nil)
            try? port.schedule(in: .current)
            for id in 1...3 as ClosedRange<UInt32> { try? right.send(MachPort.Message(id: id)) }
            try? ThreadRunLoop.current.run()
            port.remove(from: .current)
            return counter.ids
        }
        #expect(handled.value() == [1, 2, 3])
        try send(4, to: port)
        #expect(try port.receive(before: .patience).id == 4)
    }

    @Test func `a local delegate is not kept, and is released on its thread`() throws {
        for _ in 0..<50 {
            let (port, isReleasedThere, isSet) = (try MachPort(), Shared<[Bool]>([]), Latch())
            let thread = try RunLoopThread { loop in
                var counter: Counter? = Counter { isThere in isReleasedThere.withLock { $0.append(isThere) } }
                if let counter { port.setLocalDelegate(counter) }
                try? port.schedule(in: loop)
                isSet.open()
                // Other threads send while the delegate goes.
                _ = try? loop.runInMode(seconds: 0.002)
                counter = nil
            }
            #expect(isSet.wait(until: .patience))
            for id in 10..<100 as Range<UInt32> { try send(id, to: port) }
            #expect(waitUntil { isReleasedThere.withLock { $0 } == [true] })
            port.setHandler(nil)
            thread.stop()
        }
    }

    @MainActor @Test func `a delegate of the main actor works on the main loop`() async throws {
        let port = try MachPort()
        let model = Model()
        port.setMainActorDelegate(model)
        try port.schedule(in: .main)
        try await port.sendRight.send(MachPort.Message(id: 1))
        for await id in model.ids {
            #expect(id == 1)
            break
        }
        port.invalidate()
    }

    @Test(arguments: ["loop", "queue"]) func `a local delegate's message on another thread stops the process`(
        _ place: String
    ) {
        let sandbox = Sandbox()
        let status = Child("misuse-delegate", place, in: sandbox).wait()
        #expect(status == -SIGILL || status == -SIGTRAP, "\(status ?? 0)")
    }
}

@MainActor private final class Model {
    nonisolated let ids: AsyncStream<UInt32>
    private let tell: AsyncStream<UInt32>.Continuation

    init() { (ids, tell) = AsyncStream.makeStream() }
}

extension Model: @MainActor MachPort.Delegate {
    func handle(_ message: MachPort.Message, of port: MachPort) { tell.yield(message.id) }
}
