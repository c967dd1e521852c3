import Dispatch
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct QueueTests {
    let sandbox = Sandbox()

    private func numbered(_ count: Int, to right: MachPort.SendRight) -> Helper<String> {
        Helper {
            errorKind {
                for number in 0..<UInt32(count) { try right.send(MachPort.Message(id: number), before: .patience) }
            }
        }
    }

    @Test(arguments: [false, true])
    func `a queue handles every message, one at a time and in order`(_ isConcurrent: Bool) throws {
        let queue = DispatchQueue(label: "test", attributes: isConcurrent ? .concurrent : [])
        let (ids, inside, overlaps) = (Shared<[UInt32]>([]), Shared(0), Shared(0))
        let port = try MachPort(queueLimit: 50) { message in
            dispatchPrecondition(condition: .onQueue(queue))
            if inside.withLock({ inside in
                inside += 1
                return inside
            }) > 1 {
                overlaps.withLock { $0 += 1 }
            }
            ids.withLock { $0.append(message.id) }
            inside.withLock { $0 -= 1 }
        }
        try port.sendRight.send(MachPort.Message(id: 0))
        try port.setQueue(queue)
        #expect(waitUntil { ids.withLock { $0 } == [0] })
        ids.withLock { $0 = [] }
        let sender = numbered(10_000, to: port.sendRight)
        #expect(sender.value() == "none")
        #expect(waitUntil { ids.withLock { $0.count } == 10_000 })
        #expect(ids.withLock { $0 } == Array(0..<10_000))
        #expect(overlaps.withLock { $0 } == 0)
        port.invalidate()
    }

    @Test func `a queue that is taken away in a handler handles no more`() throws {
        let (ids, kept) = (Shared<[UInt32]>([]), Shared<MachPort?>(nil))
        let port = try MachPort { message in
            ids.withLock { $0.append(message.id) }
            if message.id == 1 { try? kept.withLock { $0 }?.setQueue(nil) }
        }
        kept.withLock { $0 = port }
        for id in 0..<5 as Range<UInt32> { try port.sendRight.send(MachPort.Message(id: id)) }
        let queue = DispatchQueue(label: "test")
        try port.setQueue(queue)
        #expect(waitUntil { ids.withLock { $0.count } >= 2 })
        // Behind whatever the port has put there.
        queue.sync {}
        #expect(ids.withLock { $0 } == [0, 1])
        #expect(try port.receive(before: .patience).id == 2)
        port.invalidate()
        kept.withLock { $0 = nil }
    }

    @Test func `a queue and a loop take every message once`() throws {
        let handled = Shared<[UInt32: Int]>([:])
        let port = try MachPort(queueLimit: 50) { message in handled.withLock { $0[message.id, default: 0] += 1 } }
        try port.setQueue(DispatchQueue(label: "test"))
        let thread = try served(port)
        #expect(numbered(20_000, to: port.sendRight).value() == "none")
        #expect(waitUntil { handled.withLock { $0.count } == 20_000 })
        #expect(handled.withLock { $0.values.allSatisfy { $0 == 1 } })
        port.invalidate()
        thread.stop()
    }

    @Test func `what the queue is too busy for, a thread may take`() throws {
        let queue = DispatchQueue(label: "test")
        let port = try MachPort { _ in Issue.record("the queue is busy") }
        let free = Latch()
        queue.async { _ = free.wait(until: .patience) }
        try port.setQueue(queue)
        for number in 0..<100 as Range<UInt32> {
            try port.sendRight.send(MachPort.Message(id: number))
            #expect(try port.receive(before: .patience).id == number)
        }
        try port.setQueue(nil)
        free.open()
    }

    @Test func `messages without a handler wait, and the queue gets them when there is one`() throws {
        let queue = DispatchQueue(label: "test")
        let port = try MachPort()
        try port.setQueue(queue)
        try port.sendRight.send(MachPort.Message(id: 1))
        queue.sync {}
        let ids = Shared<[UInt32]>([])
        port.setHandler { message in ids.withLock { $0.append(message.id) } }
        #expect(waitUntil { ids.withLock { $0 } == [1] })
        try port.setQueue(nil)
        try port.sendRight.send(MachPort.Message(id: 2))
        #expect(try port.receive(before: .patience).id == 2)
        try port.sendRight.send(MachPort.Message(id: 3))
        let other = DispatchQueue(label: "other")
        try port.setQueue(other)
        #expect(waitUntil { ids.withLock { $0 } == [1, 3] })
        port.invalidate()
    }

    @Test func `a queue keeps its port, and lets it go when it is taken away or the port invalid`() throws {
        for isTakenAway in [true, false] {
            let handled = Latch()
            var port: MachPort? = try MachPort { _ in handled.open() }
            weak let kept = port
            try port?.setQueue(DispatchQueue(label: "test"))
            let right = try #require(port).sendRight
            port = nil
            try right.send(MachPort.Message())
            #expect(handled.wait(until: .patience))
            if isTakenAway { try kept?.setQueue(nil) } else { kept?.invalidate() }
            #expect(waitUntil { kept == nil })
            // Another thread may still be ending it.
            #expect(waitUntil { !right.isValid })
            #expect(errorKind { try kept?.setQueue(DispatchQueue(label: "late")) } == "none")
        }
        let invalid = try MachPort()
        invalid.invalidate()
        #expect(errorKind { try invalid.setQueue(DispatchQueue(label: "late")) } == "isInvalid")
    }

    @Test func `invalidation waits for the message in hand, and none is handled after it`() throws {
        for _ in 0..<40 {
            let (isOver, late, handled) = (Shared(false), Shared(0), Shared(0))
            let port = try MachPort(queueLimit: 50) { _ in
                if isOver.withLock({ $0 }) { late.withLock { $0 += 1 } }
                handled.withLock { $0 += 1 }
            }
            port.onInvalidation { isOver.withLock { $0 = true } }
            let queue = DispatchQueue(label: "test")
            try port.setQueue(queue)
            let right = port.sendRight
            let sender = Helper { errorKind { while true { try right.send(MachPort.Message(), before: .patience) } } }
            #expect(waitUntil { handled.withLock { $0 } > 20 })
            port.invalidate()
            #expect(isOver.withLock { $0 })
            #expect(["isInvalid", "becameInvalid"].contains(sender.value() ?? "it hangs"))
            queue.sync {}
            #expect(late.withLock { $0 } == 0)
        }
    }

    @Test func `a handler on the queue that fills its own port is told at once`() throws {
        let (error, own) = (Shared("none"), Shared<MachPort.SendRight?>(nil))
        let port = try MachPort(queueLimit: 2) { message in
            guard message.id == 0, let right = own.withLock({ $0 }) else { return }
            let kind = errorKind { while true { try right.send(MachPort.Message(id: 1)) } }
            error.withLock { $0 = kind }
        }
        own.withLock { $0 = port.sendRight }
        try port.setQueue(DispatchQueue(label: "test"))
        try port.sendRight.send(MachPort.Message())
        #expect(waitUntil { error.withLock { $0 } != "none" })
        #expect(error.withLock { $0 } == "ownQueueFull")
        own.withLock { $0 = nil }
        port.invalidate()
    }

    @Test func `a message port answers on its queue`() throws {
        let queue = DispatchQueue(label: "test")
        let server = try LocalMessagePort(name: "on a queue", nameServer: sandbox.names) { _, data in
            dispatchPrecondition(condition: .onQueue(queue))
            return data
        }
        try server.setQueue(queue)
        let remote = try RemoteMessagePort(name: "on a queue", nameServer: sandbox.names, before: .patience)
        for number in 0..<100 as Range<UInt8> { #expect(try remote.request(id: 1, [number]) == [number]) }
        server.invalidate()
        #expect(errorKind { _ = try remote.request(id: 1) } == "isInvalid")
    }

    @Test func `a queue handles the messages of another process`() throws {
        let ids = Shared<[UInt32]>([])
        let port = try MachPort(nameServer: sandbox.names) { message in ids.withLock { $0.append(message.id) } }
        try sandbox.names.register(port, name: "test")
        try port.setQueue(DispatchQueue(label: "test"))
        let child = Child("send", "5000", in: sandbox)
        #expect(child.wait() == 0)
        #expect(waitUntil { ids.withLock { $0.count } == 5000 })
        #expect(ids.withLock { $0 } == Array(0..<5000))
        port.invalidate()
    }
}
