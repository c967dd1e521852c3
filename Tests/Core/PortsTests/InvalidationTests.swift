import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct InvalidationTests {
    @Test func `whoever invalidates, the handlers run once, on the caller`() throws {
        for _ in 0..<50 {
            let port = try MachPort()
            let (calls, rightCalls) = (Shared<[pthread_t]>([]), Shared(0))
            port.onInvalidation { calls.withLock { $0.append(pthread_self()) } }
            port.sendRight.onInvalidation { rightCalls.withLock { $0 += 1 } }
            let threads = (0..<4).map { _ in
                Helper { () -> Bool in
                    port.invalidate()
                    return true
                }
            }
            for thread in threads { #expect(thread.value() == true) }
            // The first call may still be at work when the others have returned.
            #expect(waitUntil { calls.withLock { $0.count } == 1 && rightCalls.withLock { $0 } == 1 })
            #expect(!port.isValid)
            #expect(!port.sendRight.isValid)
        }
        let port = try MachPort()
        let caller = Shared<pthread_t?>(nil)
        port.onInvalidation { caller.withLock { $0 = pthread_self() } }
        port.invalidate()
        #expect(caller.withLock { $0 } == pthread_self())
    }

    @Test(arguments: [false, true])
    func `a handler that ends its thread does not hang the one who invalidates`(_ isWaitedFor: Bool) throws {
        let (isInside, mayEnd, isInvalid) = (Latch(), Latch(), Latch())
        let port = try MachPort { _ in
            isInside.open()
            _ = mayEnd.wait(until: .patience)
            pthread_exit(nil)
        }
        port.onInvalidation { isInvalid.open() }
        let thread = try RunLoopThread()
        try port.schedule(in: thread.loop)
        try port.sendRight.send(MachPort.Message())
        #expect(isInside.wait(until: .patience))
        if !isWaitedFor {
            mayEnd.open()
            #expect(thread.join(before: .patience))
        }
        let caller = Helper { () -> Bool in
            port.invalidate()
            return true
        }
        if isWaitedFor { #expect(waitUntil { !port.isValid }) }
        mayEnd.open()
        #expect(caller.value() == true)
        #expect(isInvalid.wait(until: .patience))
    }

    @Test(arguments: [false, true])
    func `a handler that ends its thread after the deadline does not keep its port from the end`(
        _ isFinished: Bool
    ) throws {
        let (isInside, mayEnd, isInvalid) = (Latch(), Latch(), Latch())
        let server = try LocalMessagePort { _, _ in
            isInside.open()
            _ = mayEnd.wait(until: .patience)
            pthread_exit(nil)
        }
        server.onInvalidation { isInvalid.open() }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        try RemoteMessagePort(server.sendRight).send(id: 1)
        #expect(isInside.wait(until: .patience))
        if isFinished { server.finish(before: .now + .milliseconds(20)) } else { server.invalidateAtOnce() }
        #expect(!server.isValid)
        #expect(!isInvalid.isOpen)
        mayEnd.open()
        #expect(isInvalid.wait(until: .patience))
    }

    @Test func `an invalid port refuses everything`() throws {
        let port = try MachPort()
        port.invalidate()
        port.invalidate()
        #expect(errorKind { try port.sendRight.send(MachPort.Message()) } == "isInvalid")
        #expect(errorKind { _ = try port.receive() } == "isInvalid")
        #expect(errorKind { try port.schedule(in: .main) } == "isInvalid")
        #expect(errorKind { try PortNameServer.shared.register(port, name: "invalid") } == "isInvalid")
    }

    @Test func `a handler set late runs at once`() throws {
        let port = try MachPort()
        port.invalidate()
        let calls = Shared(0)
        port.onInvalidation { calls.withLock { $0 += 1 } }
        port.sendRight.onInvalidation { calls.withLock { $0 += 1 } }
        #expect(calls.withLock { $0 } == 2)
    }

    /// A port whose message is in hand, a trace, and what lets the handler go on to set another invalidation handler.
    private func inHand() throws -> (port: MachPort, trace: Shared<[String]>, goOn: Latch, thread: RunLoopThread) {
        let (trace, entered, goOn) = (Shared<[String]>([]), Latch(), Latch())
        let kept = Shared<MachPort?>(nil)
        let port = try MachPort { _ in
            let port = kept.withLock { $0 }
            kept.withLock { $0 = nil }
            entered.open()
            _ = goOn.wait(until: .patience)
            port?.onInvalidation { trace.withLock { $0.append("set late") } }
            trace.withLock { $0.append("returned") }
        }
        kept.withLock { $0 = port }
        port.onInvalidation { trace.withLock { $0.append("set before") } }
        let thread = try served(port)
        try port.sendRight.send(MachPort.Message())
        #expect(entered.wait(until: .patience))
        return (port, trace, goOn, thread)
    }

    @Test func `a handler set while the last message is in hand runs after that, and after those before it`() throws {
        let (port, trace, goOn, thread) = try inHand()
        let ender = Helper { () -> Bool in
            port.invalidate()
            return true
        }
        #expect(waitUntil { !port.isValid })
        goOn.open()
        #expect(ender.value() == true)
        #expect(trace.withLock { $0 } == ["returned", "set before", "set late"])
        thread.stop()
    }

    @Test func `the same when it was invalidated in another port's handler`() throws {
        let (port, trace, goOn, thread) = try inHand()
        let done = Latch()
        let other = try MachPort { _ in
            port.invalidate()
            done.open()
        }
        let second = try served(other)
        try other.sendRight.send(MachPort.Message())
        #expect(done.wait(until: .patience))
        #expect(!port.isValid)
        goOn.open()
        #expect(waitUntil { trace.withLock { $0.count } == 3 })
        #expect(trace.withLock { $0 } == ["returned", "set before", "set late"])
        thread.stop()
        second.stop()
    }

    @Test(arguments: [false, true])
    func `a handler set inside another runs after those set before`(_ isRight: Bool) throws {
        let port = try MachPort()
        let trace = Shared<[Int]>([])
        let add: @Sendable (@escaping @Sendable () -> Void) -> Void = { [sendRight = port.sendRight, weak port] in
            if isRight { sendRight.onInvalidation($0) } else { port?.onInvalidation($0) }
        }
        add {
            trace.withLock { $0.append(1) }
            add { trace.withLock { $0.append(3) } }
        }
        add { trace.withLock { $0.append(2) } }
        port.invalidate()
        #expect(trace.withLock { $0 } == [1, 2, 3])
        add { trace.withLock { $0.append(4) } }
        #expect(trace.withLock { $0 } == [1, 2, 3, 4])
    }

    @Test(arguments: [false, true])
    func `of handlers set while others run, each runs once and after them`(_ isRight: Bool) throws {
        for round in 0..<50 {
            let port = try MachPort()
            let right = port.sendRight
            let add: @Sendable (@escaping @Sendable () -> Void) -> Void = {
                if isRight { right.onInvalidation($0) } else { port.onInvalidation($0) }
            }
            let (trace, entered, mayEnd) = (Shared<[Int]>([]), Latch(), Latch())
            add {
                entered.open()
                _ = mayEnd.wait(until: .patience)
                trace.withLock { $0.append(0) }
            }
            let ender = Helper { () -> Bool in
                port.invalidate()
                return true
            }
            #expect(entered.wait(until: .patience))
            // All of them while the first handler runs, or some around its end.
            for number in 1...3 {
                add { trace.withLock { $0.append(number) } }
                if number > round % 3 { mayEnd.open() }
            }
            #expect(ender.value() == true)
            #expect(waitUntil { trace.withLock { $0.count } == 4 })
            #expect(trace.withLock { $0 } == [0, 1, 2, 3])
        }
    }

    @Test func `invalidating inside the handler ends the port there and then`() throws {
        // A loop may be in the handler before the thread that has scheduled the port there goes on.
        for _ in 0..<100 {
            let kept = Shared<MachPort?>(nil)
            let (trace, done) = (Shared<[String]>([]), Latch())
            let port = try MachPort { message in
                trace.withLock { $0.append("message \(message.id)") }
                kept.withLock { $0 }?.invalidate()
                trace.withLock { $0.append("returned") }
                done.open()
            }
            kept.withLock { $0 = port }
            port.onInvalidation { trace.withLock { $0.append("invalid") } }
            for number in 1...3 as ClosedRange<UInt32> { try port.sendRight.send(MachPort.Message(id: number)) }
            let thread = try served(port)
            #expect(done.wait(until: .patience))
            let after = Latch()
            try thread.loop.perform { after.open() }
            #expect(after.wait(until: .patience))
            #expect(trace.withLock { $0 } == ["message 1", "invalid", "returned"])
            kept.withLock { $0 = nil }
            thread.stop()
        }
    }

    @Test func `invalidation waits for the message in hand, and none is handled after it`() throws {
        for _ in 0..<40 {
            let (isOver, late, handled) = (Shared(false), Shared(0), Shared(0))
            let port = try MachPort(queueLimit: 50) { _ in
                if isOver.withLock({ $0 }) { late.withLock { $0 += 1 } }
                handled.withLock { $0 += 1 }
            }
            port.onInvalidation { isOver.withLock { $0 = true } }
            let (first, second) = (try served(port), try served(port))
            let right = port.sendRight
            let senders = (0..<4).map { _ in
                Helper { errorKind { while true { try right.send(MachPort.Message(), before: .patience) } } }
            }
            #expect(waitUntil { handled.withLock { $0 } > 20 })
            port.invalidate()
            #expect(isOver.withLock { $0 })
            for sender in senders {
                let error = sender.value() ?? "it hangs"
                #expect(error == "isInvalid" || error == "becameInvalid")
            }
            #expect(late.withLock { $0 } == 0)
            #expect(!port.isScheduled(in: first.loop))
            #expect(!port.isScheduled(in: second.loop))
            first.stop()
            second.stop()
        }
    }

    @Test func `receiving ends when the port does`() throws {
        let port = try MachPort()
        let takers = (0..<3).map { _ in Helper { errorKind { _ = try port.receive(before: .patience) } } }
        let isWaiting = Helper { () -> Bool in
            port.invalidate()
            return true
        }
        #expect(isWaiting.value() == true)
        for taker in takers { #expect(["becameInvalid", "isInvalid"].contains(taker.value() ?? "it hangs")) }
    }

    @Test func `blocked senders learn of the end`() throws {
        let port = try MachPort(queueLimit: 1)
        let right = port.sendRight
        let senders = (0..<4).map { _ in
            Helper { errorKind { while true { try right.send(MachPort.Message()) } } }
        }
        #expect(waitUntil { right.channel.waiterCount == 4 })
        port.invalidate()
        for sender in senders { #expect(sender.value() == "becameInvalid") }
    }

    @Test func `a handler that waits for room in its own port does not hold up the end`() throws {
        let own = Shared<MachPort.SendRight?>(nil)
        let error = Shared("none")
        let (entered, left) = (Latch(), Latch())
        let port = try MachPort(queueLimit: 1) { _ in
            entered.open()
            guard let right = own.withLock({ $0 }) else { return }
            error.withLock { error in
                error = errorKind { while true { try right.send(MachPort.Message()) } }
            }
            left.open()
        }
        own.withLock { $0 = port.sendRight }
        // A second loop that never runs: so the first is not told that the room would have to come from itself.
        let idle = try RunLoopThread { _ in _ = left.wait(until: .patience) }
        try port.schedule(in: idle.loop)
        let thread = try served(port)
        try port.sendRight.send(MachPort.Message())
        #expect(entered.wait(until: .patience))
        #expect(waitUntil { port.sendRight.channel.waiterCount == 1 })
        port.invalidate()
        #expect(left.wait(until: .patience))
        #expect(error.withLock { $0 } == "becameInvalid")
        own.withLock { $0 = nil }
        thread.stop()
        idle.stop()
    }

    @Test func `two ports whose handlers end each other do not wait for each other`() throws {
        for _ in 0..<50 {
            let ports = Shared<[MachPort]>([])
            let bothIn = Shared(0)
            let ended = (0..<2).map { _ in Latch() }
            let made = try (0..<2).map { index in
                try MachPort { _ in
                    bothIn.withLock { $0 += 1 }
                    _ = waitUntil { bothIn.withLock { $0 } == 2 }
                    ports.withLock { $0[1 - index] }.invalidate()
                }
            }
            ports.withLock { $0 = made }
            for (port, latch) in zip(made, ended) { port.onInvalidation { latch.open() } }
            let threads = try made.map { try served($0) }
            for port in made { try port.sendRight.send(MachPort.Message()) }
            for latch in ended { #expect(latch.wait(until: .patience)) }
            ports.withLock { $0 = [] }
            for thread in threads { thread.stop() }
        }
    }

    @Test func `a port that nobody keeps is invalid`() throws {
        let calls = Shared(0)
        var port: MachPort? = try MachPort()
        let right = try #require(port).sendRight
        port?.onInvalidation { calls.withLock { $0 += 1 } }
        right.onInvalidation { calls.withLock { $0 += 1 } }
        port = nil
        #expect(calls.withLock { $0 } == 2)
        #expect(!right.isValid)
    }

    @Test func `a loop keeps its port until it is removed`() throws {
        let thread = try RunLoopThread()
        let isGone = Latch()
        var port: MachPort? = try MachPort { _ in }
        try port?.schedule(in: thread.loop)
        port?.onInvalidation { isGone.open() }
        let right = try #require(port).sendRight
        port = nil
        try right.send(MachPort.Message())
        let kept = PortRuntime.shared.ports.port(right.id.number)
        #expect(kept?.isValid == true)
        kept?.takers.remove(from: thread.loop, forMode: .default)
        #expect(isGone.wait(until: .patience))
        thread.stop()
    }

    @Test func `a port outlives the thread of its loop, and can join another`() throws {
        let handled = Latch()
        let port = try MachPort { _ in handled.open() }
        let first = try served(port)
        first.stop()
        #expect(first.join(before: .patience))
        #expect(port.isValid)
        #expect(!port.isScheduled(in: first.loop))
        try port.sendRight.send(MachPort.Message())
        let second = try served(port)
        #expect(handled.wait(until: .patience))
        second.stop()
    }

    @Test func `scheduling and invalidating at the same time leaves the port in no loop`() throws {
        let thread = try RunLoopThread()
        for _ in 0..<300 {
            let port = try MachPort { _ in }
            let scheduler = Helper { errorKind { try port.schedule(in: thread.loop) } }
            port.invalidate()
            #expect(["none", "isInvalid"].contains(scheduler.value() ?? "it hangs"))
            #expect(!port.isScheduled(in: thread.loop))
        }
        thread.stop()
    }

    @Test func `requests in the queue are refused at once`() throws {
        let server = try MachPort()
        let right = server.sendRight
        let askers = (0..<3).map { _ in
            Helper { errorKind { _ = try RemoteMessagePort(right).request(id: 1, timeout: .seconds(20)) } }
        }
        #expect(waitUntil { PortRuntime.shared.replies.pending.pendingCount(to: right.id) == 3 })
        server.invalidate()
        for asker in askers {
            #expect(["refused", "isInvalid", "becameInvalid"].contains(asker.value() ?? "it hangs"))
        }
    }

    @Test func `a request that is surely queued is refused`() throws {
        let server = try MachPort(queueLimit: 1)
        let right = server.sendRight
        var count = 0
        while (try? right.send(MachPort.Message(), before: .distantPast)) != nil { count += 1 }
        let asker = Helper {
            errorKind { _ = try RemoteMessagePort(right).request(id: 1, timeout: .seconds(1000)) }
        }
        #expect(waitUntil { right.channel.waiterCount == 1 })
        for _ in 0..<count { _ = try server.receive(before: .patience) }
        #expect(waitUntil { right.channel.waiterCount == 0 })
        while (try? right.send(MachPort.Message(), before: .distantPast)) != nil {}
        let thread = Helper { () -> String in errorKind { try right.send(MachPort.Message(), before: .patience) } }
        #expect(waitUntil { right.channel.waiterCount == 1 })
        server.invalidate()
        #expect(asker.value() == "refused")
        #expect(thread.value() == "becameInvalid")
    }
}
