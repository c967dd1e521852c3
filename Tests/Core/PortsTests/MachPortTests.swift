import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct MachPortTests {
    // MARK: Who is told

    @Test func `what a thread has left is handled by the loop that the port joins after that`() throws {
        let ids = Shared<[UInt32]>([])
        let port = try MachPort { message in ids.withLock { $0.append(message.id) } }
        for id in 0..<3 as Range<UInt32> { try port.sendRight.send(MachPort.Message(id: id)) }
        // The socket's descriptor speaks no more from here on.
        #expect(try port.receive(before: .patience).id == 0)
        let thread = try served(port)
        #expect(waitUntil { ids.withLock { $0 } == [1, 2] })
        thread.stop()
    }

    @Test func `a loop that alone serves a port may wait for room in it while a thread receives there too`() throws {
        let port = try MachPort { _ in }
        let thread = try served(port)
        #expect(try thread.run { port.receiver.isServedOnlyHere })
        let receiver = Helper { try? port.receive(before: .patience).id }
        #expect(try thread.run { waitUntil { !port.receiver.isServedOnlyHere } })
        thread.stop()
        #expect(thread.join(before: .patience))
        try port.sendRight.send(MachPort.Message(id: 7))
        #expect(receiver.value() == 7)
    }

    // MARK: Order

    /// Takes note of numbered messages of several senders.
    private final class Ledger: Sendable {
        private struct State {
            var next: [UInt32]
            var isBroken = false
            var count = 0
        }

        private let state: Shared<State>
        private let total: Int
        let complete = Latch()

        init(senders: Int, each: Int) {
            state = Shared(State(next: Array(repeating: 0, count: senders)))
            total = senders * each
        }

        func note(_ message: MachPort.Message) {
            let sender = Int(message.withBytes { $0.unsafeLoad(as: UInt8.self) } ?? 0)
            state.withLock { state in
                if state.next[sender] != message.id { state.isBroken = true }
                state.next[sender] += 1
                state.count += 1
                if state.count == total { complete.open() }
            }
        }

        var isInOrder: Bool { state.withLock { !$0.isBroken } }
        var count: Int { state.withLock { $0.count } }
    }

    private func send(_ count: Int, from sender: UInt8, to right: MachPort.SendRight) -> Helper<PortError?> {
        Helper {
            portError {
                for number in 0..<UInt32(count) {
                    let bytes = [sender]
                    try right.send(id: number, bytes: bytes.span.bytes, before: .patience)
                }
            }
        }
    }

    @Test func `a flush bound is set, or refused with its range`() throws {
        let runtime = PortRuntime(directory: Sandbox().path)
        for bound in [.zero, .milliseconds(1500), .milliseconds(Int32.max)] as [Duration] {
            try runtime.setFlushBound(bound)
            #expect(runtime.flushBound == bound)
        }
        for bound in [.seconds(Int64.max), .seconds(Int64.min), .milliseconds(-1)] as [Duration] {
            #expect(
                portError { try runtime.setFlushBound(bound) }
                    == PortError.invalidDuration(
                        name: "flushBound", value: bound, allowed: Duration.zero ... .milliseconds(Int32.max)))
        }
        #expect(runtime.flushBound == .milliseconds(Int32.max))
        try runtime.setFlushBound(.zero)
    }

    @Test func `messages of each thread are handled in the order sent, each once`() throws {
        let ledger = Ledger(senders: 4, each: 20_000)
        let port = try MachPort { ledger.note($0) }
        let thread = try served(port)
        let senders = (0..<4).map { send(20_000, from: $0, to: port.sendRight) }
        for sender in senders { #expect(sender.value(before: .now + .seconds(60)) == .some(nil)) }
        #expect(ledger.complete.wait(until: .patience))
        #expect(ledger.isInOrder)
        #expect(ledger.count == 80_000)
        thread.stop()
        port.invalidate()
    }

    @Test func `several threads and a loop take every message once`() throws {
        let (handled, done) = (Shared<[UInt32: Int]>([:]), Latch())
        let count = 20_000
        @Sendable func note(_ message: MachPort.Message) {
            let total = handled.withLock { handled in
                handled[message.id, default: 0] += 1
                return handled.count
            }
            if total == count { done.open() }
        }
        let port = try MachPort { note($0) }
        let thread = try served(port)
        let takers = (0..<3).map { _ in
            Helper { portError { while true { note(try port.receive(before: .patience)) } } }
        }
        for number in 0..<UInt32(count) { try port.sendRight.send(MachPort.Message(id: number), before: .patience) }
        #expect(done.wait(until: .patience))
        port.invalidate()
        for taker in takers {
            let error = kind(taker.value().flatMap(\.self))
            #expect(error == "becameInvalid" || error == "isInvalid")
        }
        #expect(handled.withLock { $0.values.allSatisfy { $0 == 1 } })
        thread.stop()
    }

    // MARK: Handlers

    @Test func `a message without a handler waits for one`() throws {
        let port = try MachPort()
        let thread = try served(port)
        try port.sendRight.send(MachPort.Message(id: 1))
        try port.sendRight.send(MachPort.Message(id: 2))
        // The loop has looked at the port by then, and has let it be.
        let looked = Latch()
        try thread.loop.perform { looked.open() }
        #expect(looked.wait(until: .patience))
        let (ids, both) = (Shared<[UInt32]>([]), Latch())
        port.setHandler { message in
            let count = ids.withLock { ids in
                ids.append(message.id)
                return ids.count
            }
            if count == 2 { both.open() }
        }
        #expect(both.wait(until: .patience))
        #expect(ids.withLock { $0 } == [1, 2])
        port.setHandler(nil)
        try port.sendRight.send(MachPort.Message(id: 3))
        #expect(try port.receive(before: .patience).id == 3)
        thread.stop()
    }

    @Test func `a thread that receives gets what a loop without a handler lets be`() throws {
        let port = try MachPort()
        let thread = try served(port)
        for number in 0..<200 as Range<UInt32> {
            let taker = Helper { try? port.receive(before: .patience).id }
            try port.sendRight.send(MachPort.Message(id: number))
            #expect(taker.value().flatMap(\.self) == number)
        }
        thread.stop()
    }

    @Test func `what a handler has captured may use the port when it is let go of`() throws {
        final class Last: Sendable {
            let port: Shared<MachPort?>
            init(_ port: Shared<MachPort?>) { self.port = port }
            deinit { port.withLock { $0 }?.setHandler(nil) }
        }
        let port = try MachPort()
        let kept = Shared<MachPort?>(port)
        var last: Last? = Last(kept)
        port.setHandler { [last] _ in withExtendedLifetime(last) {} }
        last = nil
        port.setHandler(nil)
        last = Last(kept)
        port.setHandler { [last] _ in withExtendedLifetime(last) {} }
        last = nil
        port.invalidate()
        #expect(!port.isValid)
    }

    @Test func `receiving takes only what is there when the deadline has passed`() throws {
        let port = try MachPort()
        #expect(errorKind { _ = try port.receive(before: .distantPast) } == "receiveTimedOut")
        try port.sendRight.send(MachPort.Message(id: 9))
        #expect(try port.receive(before: .distantPast).id == 9)
        let began = ContinuousClock.now
        #expect(errorKind { _ = try port.receive(before: .now + .milliseconds(30)) } == "receiveTimedOut")
        #expect(began.duration(to: .now) >= .milliseconds(30))
    }

    @Test func `an answer goes to the reply port`() throws {
        let server = try MachPort { message in
            try? message.replyPort?.send(MachPort.Message(id: message.id + 1, message.components))
        }
        let thread = try served(server)
        let mine = try MachPort()
        let components: [MachPort.Message.Component] = [.bytes(Array("hello".utf8)), .port(mine.sendRight), .bytes([])]
        try server.sendRight.send(MachPort.Message(id: 1, components, replyPort: mine.sendRight))
        let answer = try mine.receive(before: .patience)
        #expect(answer.id == 2)
        #expect(answer.components == components)
        #expect(answer.replyPort == nil)
        #expect(answer.sender == SenderCredentials(pid: getpid(), uid: geteuid(), gid: getegid()))
        thread.stop()
    }

    @Test func `a message that was changed after it came carries the change`() throws {
        let port = try MachPort()
        try port.sendRight.send(MachPort.Message(id: 1, [.bytes([1, 2])], replyPort: port.sendRight))
        var message = try port.receive(before: .patience)
        message.id = 5
        message.components.append(.port(port.sendRight))
        #expect(message.sender == nil)
        try port.sendRight.send(message)
        let changed = try port.receive(before: .patience)
        #expect(changed.id == 5)
        #expect(changed.components == [.bytes([1, 2]), .port(port.sendRight)])
        #expect(changed.replyPort == port.sendRight)
    }

    // MARK: Loops

    @Test func `while one loop is stuck in a message, the other handles the rest`() throws {
        let (stuck, release, rest) = (Latch(), Latch(), Latch())
        let (count, threads) = (Shared(0), Shared<Set<pthread_t>>([]))
        let port = try MachPort { message in
            if message.id == 0 {
                stuck.open()
                _ = release.wait(until: .patience)
                return
            }
            threads.withLock { _ = $0.insert(pthread_self()) }
            let handled = count.withLock { count in
                count += 1
                return count
            }
            if handled == 500 { rest.open() }
        }
        let (first, second) = (try served(port), try served(port))
        try port.sendRight.send(MachPort.Message(id: 0))
        #expect(stuck.wait(until: .patience))
        for _ in 0..<500 { try port.sendRight.send(MachPort.Message(id: 1), before: .patience) }
        #expect(rest.wait(until: .patience))
        #expect(threads.withLock { $0.count } == 1)
        release.open()
        first.stop()
        second.stop()
    }

    @Test func `what was queued before one loop got stuck is handled by the other`() throws {
        let (release, rest, count) = (Latch(), Latch(), Shared(0))
        let port = try MachPort { message in
            if message.id == 0 { _ = release.wait(until: .patience) }
            let handled = count.withLock { count in
                count += 1
                return count
            }
            if handled == 99 { rest.open() }
        }
        for number in 0..<100 as Range<UInt32> { try port.sendRight.send(MachPort.Message(id: number)) }
        let (first, second) = (try served(port), try served(port))
        #expect(rest.wait(until: .patience))
        release.open()
        first.stop()
        second.stop()
    }

    @Test func `a run nested in a handler receives the next message`() throws {
        let trace = Shared<[String]>([])
        let done = Latch()
        let port = try MachPort { message in
            trace.withLock { $0.append("begin \(message.id)") }
            if message.id < 3 {
                let result = try? ThreadRunLoop.current.runInMode(seconds: 20, returnAfterSourceHandled: true)
                trace.withLock { $0.append("\(result.map { "\($0)" } ?? "error")") }
            }
            trace.withLock { $0.append("end \(message.id)") }
            if message.id == 1 { done.open() }
        }
        for number in 1...3 as ClosedRange<UInt32> { try port.sendRight.send(MachPort.Message(id: number)) }
        let thread = try served(port)
        #expect(done.wait(until: .patience))
        #expect(
            trace.withLock { $0 }
                == ["begin 1", "begin 2", "begin 3", "end 3", "handledSource", "end 2", "handledSource", "end 1"])
        thread.stop()
    }

    @Test func `a run that returns after a source handles one message`() {
        let outcome = Helper { () -> [String] in
            let trace = Shared<[String]>([])
            let loop = ThreadRunLoop.current
            guard let port = try? MachPort(handler: { message in trace.withLock { $0.append("\(message.id)") } }) else {
                return []
            }
            for number in 1...3 as ClosedRange<UInt32> { try? port.sendRight.send(MachPort.Message(id: number)) }
            try? port.schedule(in: loop)
            for _ in 0..<3 {
                let result = try? loop.runInMode(seconds: 20, returnAfterSourceHandled: true)
                trace.withLock { $0.append(result.map { "\($0)" } ?? "error") }
            }
            let result = try? loop.runInMode(seconds: 0, returnAfterSourceHandled: true)
            trace.withLock { $0.append(result.map { "\($0)" } ?? "error") }
            return trace.withLock { $0 }
        }
        #expect(
            outcome.value() == ["1", "handledSource", "2", "handledSource", "3", "handledSource", "timedOut"])
    }

    @Test func `a port is served in each of its modes, and in no other`() {
        let outcome = Helper { () -> [String] in
            let trace = Shared<[String]>([])
            let loop = ThreadRunLoop.current
            guard let port = try? MachPort(handler: { message in trace.withLock { $0.append("\(message.id)") } }) else {
                return []
            }
            try? port.schedule(in: loop, forMode: "one")
            try? port.schedule(in: loop, forMode: "two")
            for (number, mode) in (["one", "two", "three", "one"] as [ThreadRunLoop.Mode]).enumerated() {
                try? port.sendRight.send(MachPort.Message(id: UInt32(number)))
                let result = try? loop.runInMode(mode, seconds: 0, returnAfterSourceHandled: true)
                trace.withLock { $0.append(result.map { "\($0)" } ?? "error") }
            }
            port.remove(from: loop, forMode: "one")
            let isScheduled = (
                port.isScheduled(in: loop, forMode: "one"), port.isScheduled(in: loop, forMode: "two")
            )
            let result = try? loop.runInMode("two", seconds: 0, returnAfterSourceHandled: true)
            return trace.withLock { $0 } + ["\(isScheduled)", result.map { "\($0)" } ?? "error"]
        }
        #expect(
            outcome.value() == [
                "0", "handledSource", "1", "handledSource", "finished", "2", "handledSource", "3", "(false, true)",
                "handledSource",
            ])
    }

    // MARK: Limits

    @Test func `a message larger than the port takes is refused, and no other`() throws {
        let port = try MachPort(messageLimit: 1000)
        let most = 1000 - Wire.headerSize - 4
        try port.sendRight.send(MachPort.Message([.bytes(Array(repeating: 1, count: most))]))
        let tooMuch = [UInt8](repeating: 1, count: most + 1)
        let error = PortError.messageTooLarge(port: port.identity, size: 1001, limit: 1000)
        #expect(portError { try port.sendRight.send(MachPort.Message([.bytes(tooMuch)])) } == error)
        #expect(portError { try port.sendRight.send(bytes: tooMuch.span.bytes) } == error)
        #expect(try port.receive(before: .patience).bytes?.count == most)
        #expect(errorKind { _ = try port.receive(before: .distantPast) } == "receiveTimedOut")
    }

    private func fill(_ port: MachPort) -> Int {
        var count = 0
        while (try? port.sendRight.send(MachPort.Message(id: UInt32(count)), before: .distantPast)) != nil {
            count += 1
        }
        return count
    }

    @Test func `a full queue blocks until the deadline, and nothing was sent`() throws {
        let port = try MachPort(queueLimit: 8)
        let count = fill(port)
        #expect((8...9).contains(count))
        let began = ContinuousClock.now
        #expect(
            portError { try port.sendRight.send(MachPort.Message(id: 99), before: .now + .milliseconds(50)) }
                == .sendTimedOut(port: port.identity))
        #expect(began.duration(to: .now) >= .milliseconds(50))
        for number in 0..<count { #expect(try port.receive(before: .distantPast).id == UInt32(number)) }
        #expect(errorKind { _ = try port.receive(before: .distantPast) } == "receiveTimedOut")
        try port.sendRight.send(MachPort.Message(), before: .distantPast)
    }

    @Test func `blocked senders go on when room appears, each message once and in order`() throws {
        let port = try MachPort(queueLimit: 3)
        let senders = (0..<4).map { send(1000, from: $0, to: port.sendRight) }
        #expect(waitUntil { port.sendRight.channel.waiterCount == 4 })
        let ledger = Ledger(senders: 4, each: 1000)
        for _ in 0..<4000 { ledger.note(try port.receive(before: .patience)) }
        for sender in senders { #expect(sender.value() == .some(nil)) }
        #expect(ledger.isInOrder)
        #expect(ledger.count == 4000)
        #expect(port.sendRight.channel.waiterCount == 0)
    }

    @Test func `each blocked sender has its own deadline`() throws {
        let port = try MachPort(queueLimit: 1)
        _ = fill(port)
        let right = port.sendRight
        // The first waits for ever, and so do those behind it that have no deadline.
        let first = Helper { portError { try right.send(MachPort.Message(id: 1000)) } }
        #expect(waitUntil { right.channel.waiterCount == 1 })
        let senders = [120, 20, 70].map { milliseconds in
            Helper { () -> (String, Duration) in
                let began = ContinuousClock.now
                let error = errorKind {
                    try right.send(MachPort.Message(), before: began + .milliseconds(milliseconds))
                }
                return (error, began.duration(to: .now))
            }
        }
        for (sender, milliseconds) in zip(senders, [120, 20, 70]) {
            let (error, time) = sender.value() ?? ("none", .zero)
            #expect(error == "sendTimedOut")
            #expect(time >= .milliseconds(milliseconds), "\(time)")
            #expect(time < .seconds(10), "\(time)")
        }
        #expect(right.channel.waiterCount == 1)
        while try port.receive(before: .patience).id != 1000 {}
        #expect(first.value() == .some(nil))
    }

    @Test func `the one who watches hands over when its deadline comes`() throws {
        let port = try MachPort(queueLimit: 1)
        _ = fill(port)
        let right = port.sendRight
        let first = Helper { errorKind { try right.send(MachPort.Message(), before: .now + .milliseconds(300)) } }
        #expect(waitUntil { right.channel.waiterCount == 1 || first.value(before: .distantPast) != nil })
        let second = Helper { portError { try right.send(MachPort.Message(id: 1000), before: .patience) } }
        #expect(first.value() == "sendTimedOut")
        while try port.receive(before: .patience).id != 1000 {}
        #expect(second.value() == .some(nil))
    }

    @Test func `a full port does not stall sends to another`() throws {
        let (full, other) = (try MachPort(queueLimit: 1), try MachPort())
        _ = fill(full)
        let blocked = Helper { [full] in errorKind { try full.sendRight.send(MachPort.Message(), before: .patience) } }
        #expect(waitUntil { full.sendRight.channel.waiterCount == 1 })
        for _ in 0..<100 { try other.sendRight.send(MachPort.Message(), before: .distantPast) }
        full.invalidate()
        #expect(blocked.value() == "becameInvalid")
    }

    @Test func `a loop that sends to its own full port is told at once`() {
        let outcome = Helper { () -> String in
            guard let port = try? MachPort(queueLimit: 2, handler: { _ in }) else { return "no port" }
            try? port.schedule(in: .current)
            return errorKind { while true { try port.sendRight.send(MachPort.Message()) } }
        }
        #expect(outcome.value() == "ownQueueFull")
    }

    @Test func `a right that is used while its port is let go of ends cleanly`() throws {
        for _ in 0..<300 {
            var port: MachPort? = try MachPort(queueLimit: 1)
            let right = try #require(port).sendRight
            let sender = Helper {
                errorKind { while true { try right.send(MachPort.Message(), before: .patience) } }
            }
            port = nil
            #expect(["becameInvalid", "isInvalid"].contains(sender.value() ?? "it hangs"))
        }
    }

    @Test func `ten thousand ports leave nothing behind`() throws {
        func makeAndDrop(_ count: Int) throws {
            for _ in 0..<count {
                let port = try MachPort { _ in }
                try port.sendRight.send(MachPort.Message(id: 1))
                _ = try port.receive(before: .patience)
            }
        }
        try makeAndDrop(100)
        let runtime = PortRuntime.shared
        let before = (ports: runtime.ports.count, channels: runtime.channels.count)
        try makeAndDrop(10_000)
        // Other tests make ports at the same time: not nearly so many.
        let after = (ports: runtime.ports.count, channels: runtime.channels.count)
        #expect(after.ports - before.ports < 1000)
        #expect(after.channels - before.channels < 2000)
    }

    @Test(arguments: [0, -1, Int.min, Int.max])
    func `a limit out of its range is an error that names both`(_ limit: Int) {
        let messages = PortError.invalidLimit(name: "queueLimit", value: limit, allowed: 1...Int(Int32.max) - 1)
        #expect(throws: messages) { try MachPort(queueLimit: limit) }
        #expect(throws: messages) { try LocalMessagePort(queueLimit: limit) { _, _ in nil } }
        #expect(throws: PortError.invalidLimit(name: "messageLimit", value: limit, allowed: 1...Int(Int32.max))) {
            try MachPort(messageLimit: limit)
        }
        guard limit < 1 else { return }
        #expect(throws: PortError.invalidLimit(name: "byteLimit", value: limit, allowed: 1...Int.max)) {
            try MachPort(byteLimit: limit)
        }
    }

    @Test func `the text of a refused limit has the value and the range`() {
        #expect(
            portError { _ = try MachPort(queueLimit: 0) }?.description
                == "queueLimit cannot be 0: choose 1 to 2147483646")
    }

    @Test func `a loop that has ended takes no port`() throws {
        let (port, served) = (try MachPort(), Latch())
        let thread = try RunLoopThread()
        thread.stop()
        #expect(thread.join(before: .patience))
        #expect(throws: PortError.runLoop(.loopEnded)) { try port.schedule(in: thread.loop) }
        #expect(throws: PortError.runLoop(.loopEnded)) {
            try LocalMessagePort { _, _ in nil }.schedule(in: thread.loop)
        }
        #expect(!port.isScheduled(in: thread.loop))
        // Another loop takes it.
        let other = try RunLoopThread()
        port.setHandler { _ in served.open() }
        try port.schedule(in: other.loop)
        try port.sendRight.send(MachPort.Message(id: 1))
        #expect(served.wait(until: .patience))
    }

    @Test func `rights compare by port`() throws {
        let (one, other) = (try MachPort(), try MachPort())
        #expect(one.sendRight == one.sendRight)
        #expect(one.sendRight != other.sendRight)
        #expect(Set([one.sendRight, other.sendRight, one.sendRight]).count == 2)
        #expect(one.description != other.description)
    }
}
