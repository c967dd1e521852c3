import Dispatch
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import FuzzTargets
@testable import Ports
@testable import PortsInspection

@Suite(.ownThread) struct InspectionTests {
    let sandbox = Sandbox()

    /// As another process asks, of which the port's own runtime knows nothing.
    private func stranger(to port: MachPort) throws -> (right: MachPort.SendRight, runtime: PortRuntime) {
        let runtime = PortRuntime(directory: sandbox.path)
        return (try runtime.nameServer.port(forName: "asked", before: .patience), runtime)
    }

    private func port(_ handler: MachPort.Handler? = nil, queueLimit: Int = 1000) throws -> MachPort {
        let port = try MachPort(queueLimit: queueLimit, nameServer: sandbox.names, handler: handler)
        try sandbox.names.register(port, name: "asked")
        return port
    }

    @Test func `a loop that waits in the port's mode serves it`() throws {
        let port = try port { _ in }
        let thread = try RunLoopThread(name: "the server")
        try port.schedule(in: thread.loop)
        let (right, runtime) = try stranger(to: port)
        #expect(waitUntil { (try? right.info(before: .patience).takers.loops.first?.isWaiting) == true })
        let info = try right.info(before: .patience)
        let loop = try #require(info.takers.loops.first)
        #expect(info.takers.loops.count == 1)
        #expect(loop.threadName == "the server")
        #expect(loop.modes == ["default"])
        #expect(loop.running == ["default"])
        #expect(loop.serves)
        #expect(loop.busyFor == nil)
        #expect(loop.callout == nil)
        #expect(info.takers.hasHandler)
        #expect(info.takers.queue == nil)
        #expect(info.queue.observed == .zero)
        #expect(info.pid == getpid())
        #expect(info.condition == .served)
        #expect(info.trouble == nil)
        #expect(info.remedy == nil)
        // The own process asks as others do.
        #expect(try port.sendRight.info(before: .patience).takers.loops == info.takers.loops)
        withExtendedLifetime(runtime) {}
        thread.stop()
    }

    @Test func `an answer takes no more time of a process that knows thousands of ports`() throws {
        let port = try port()
        let runtime = sandbox.names.runtime
        var known = try port.receiver.channel.exposedRight()
        let channels = (1...20_000 as ClosedRange<UInt64>).map { number in
            known.id = PortID(incarnation: Incarnation(bits: 1), number: number)
            return runtime.channels.channel(to: known)
        }
        let (right, asker) = try stranger(to: port)
        _ = try right.info(before: .patience)
        let before = try timeOfLibrary(runtime)
        let count = 20
        for _ in 0..<count { _ = try right.info(before: .patience) }
        let time = try timeOfLibrary(runtime) - before
        #expect(time / count < .milliseconds(10))
        withExtendedLifetime((channels, asker)) {}
    }

    /// The processor time of the library's thread.
    private func timeOfLibrary(_ runtime: PortRuntime) throws -> Duration {
        let (time, done) = (Shared(Duration.zero), Latch())
        try runtime.housekeeping.perform {
            time.withLock { $0 = threadTime() }
            done.open()
        }
        #expect(done.wait(until: .patience))
        return time.withLock { $0 }
    }

    @Test func `a port is waited for as long as senders wait`() throws {
        let port = try port(queueLimit: 1)
        let channels = sandbox.names.runtime.channels
        // Other tests use the runtime at the same time.
        var waited: SendChannel? { channels.waitedFor.first { $0.id == port.id } }
        #expect(waited == nil)
        let count = 5
        let senders = (0..<2).map { _ in
            Helper { for _ in 0..<count { try? port.sendRight.send(MachPort.Message()) } }
        }
        #expect(waitUntil { waited?.waiterCount == 2 })
        for _ in 0..<2 * count { _ = try port.receive(before: .patience) }
        for sender in senders { sender.join() }
        #expect(waited == nil)
    }

    @Test func `the library's thread serves others between short turns of answers`() throws {
        let housekeeping = sandbox.names.runtime.housekeeping
        let turns = InspectionTurns(housekeeping)
        let passes = Passes(housekeeping)
        let done = Latch()
        try housekeeping.perform {
            passes.note()
            for _ in 0..<50 {
                turns.add {
                    let end = threadTime() + .milliseconds(1)
                    while threadTime() < end {}
                }
            }
            // The pass after the last turn notes its length first.
            turns.add { try? housekeeping.perform { done.open() } }
        }
        #expect(done.wait(until: .patience))
        #expect(passes.longest < .milliseconds(10))
        passes.end()
    }

    /// Notes the processor time of each pass of the library's thread.
    private final class Passes: Sendable {
        private let housekeeping: Housekeeping
        private let times = Shared((last: Duration?.none, longest: Duration.zero, isOver: false))

        init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

        var longest: Duration { times.withLock { $0.longest } }
        func end() { times.withLock { $0.isOver = true } }

        func note() {
            let now = threadTime()
            let isOver = times.withLock { times in
                if let last = times.last { times.longest = max(times.longest, now - last) }
                times.last = now
                return times.isOver
            }
            if !isOver { try? housekeeping.perform { self.note() } }
        }
    }

    @Test func `messages with descriptors are counted while they wait`() throws {
        let port = try port()
        let (right, runtime) = try stranger(to: port)
        for number in 0..<4 as Range<UInt32> {
            let memory = try SharedMemory(copying: [1, 2, 3].span.bytes)
            let descriptors = try (0..<number).map { _ in
                try MachPort.Message.Component.descriptor(memory.makeDescriptor())
            }
            try right.send(MachPort.Message(id: number, descriptors), before: .patience)
        }
        let sender = try #require(try right.info(before: .patience).senders.first)
        #expect(sender.sent == 4)
        #expect(sender.withDescriptors == 3)
        for waiting in [3, 2, 1, 0] {
            _ = try port.receive(before: .patience)
            #expect(try right.info(before: .patience).senders.first?.withDescriptors == waiting)
        }
        withExtendedLifetime(runtime) {}
    }

    @Test(.enabled(if: Sandbox.hasRings)) func `the memory of large messages is counted while they wait`() throws {
        let port = try port()
        let (right, runtime) = try stranger(to: port)
        let size = 20 << 20
        for id in 1...2 as ClosedRange<UInt32> {
            let bytes = MachPort.Message.Component.bytes([UInt8](repeating: 7, count: size))
            try right.send(MachPort.Message(id: id, [bytes]), before: .patience)
        }
        func memory() throws -> Int { try right.info(before: .patience).senders.first?.memory ?? -1 }
        #expect(waitUntil { (try? memory()) ?? 0 > 2 * size })
        _ = try port.receive(before: .patience)
        #expect((size..<size + 4096).contains(try memory()))
        _ = try port.receive(before: .patience)
        #expect(try memory() == 0)
        withExtendedLifetime(runtime) {}
    }

    @Test func `how long a pass has lasted is known as long as it lasts`() throws {
        let loops = ObservedLoops(sandbox.names.runtime.housekeeping, for: .milliseconds(20))
        let thread = try RunLoopThread()
        let (isInside, mayGoOn) = (Latch(), Latch())
        try thread.loop.perform {
            isInside.open()
            _ = mayGoOn.wait(until: .patience)
        }
        #expect(isInside.wait(until: .patience))
        let start = loops.activity(of: thread.loop).passStart
        let end = MonotonicInstant.now + .milliseconds(200)
        waitUntil { end.hasPassed }
        #expect(start != nil)
        #expect(loops.activity(of: thread.loop).passStart == start)
        mayGoOn.open()
        thread.stop()
    }

    @Test func `a port whose loop runs in another mode is served by nobody`() throws {
        let port = try port { _ in }
        let thread = try RunLoopThread()
        try port.schedule(in: thread.loop, forMode: "other")
        try port.sendRight.send(MachPort.Message())
        let (right, runtime) = try stranger(to: port)
        #expect(waitUntil { (try? right.info(before: .patience).takers.loops.first?.running) == ["default"] })
        let info = try right.info(observing: .milliseconds(20), before: .patience)
        #expect(info.takers.loops.map(\.modes) == [["other"]])
        #expect(info.takers.loops.first?.serves == false)
        #expect(info.condition == .unserved)
        #expect(info.queue.waiting == 1)
        #expect(info.queue.handled == 0)
        #expect(info.trouble?.contains("it runs in another mode, default") == true)
        withExtendedLifetime(runtime) {}
        thread.stop()
    }

    @Test func `a port that nobody takes from is said to be so`() throws {
        let port = try port()
        let (right, runtime) = try stranger(to: port)
        #expect(try right.info(before: .patience).condition == .unserved)
        for _ in 0..<3 { try right.send(MachPort.Message(), before: .patience) }
        #expect(waitUntil { (try? right.statistics().waiting) == 3 })
        let info = try right.info(observing: .milliseconds(20), before: .patience)
        #expect(info.takerTexts.isEmpty)
        #expect(info.condition == .unserved)
        #expect(info.queue.waiting == 3)
        #expect(info.senders.map(\.sent) == [3])
        #expect(info.senders.first?.pid == getpid())
        // With a loop, and no handler.
        let thread = try served(port)
        let other = try right.info(observing: .milliseconds(20), before: .patience)
        #expect(other.condition == .unserved)
        #expect(other.trouble?.contains("no handler") == true)
        withExtendedLifetime(runtime) {}
        thread.stop()
    }

    @Test(arguments: [true, false])
    func `the message in a handler is told, with its sender, until the handler returns`(isLocal: Bool) throws {
        let (began, mayEnd) = (Latch(), Latch())
        let port = try port { _ in
            began.open()
            _ = mayEnd.wait(until: .patience)
        }
        let thread = try served(port)
        let (right, runtime) = try stranger(to: port)
        try (isLocal ? port.sendRight : right).send(MachPort.Message(id: 7), before: .patience)
        #expect(began.wait(until: .patience))
        let info = try right.info(observing: .milliseconds(20), before: .patience)
        let message = try #require(info.handling.first)
        #expect(info.handling.count == 1)
        #expect(message.id == 7)
        #expect(!message.isRequest)
        #expect(message.isOlder)
        #expect(message.pid == getpid())
        #expect(message.program == ProcessIdentity.own.program)
        #expect(info.condition == (info.handlingTime < PortInfo.longHandling ? .busy : .stuck))
        // Another question is about all the time since.
        let again = try right.info(observing: .milliseconds(20), before: .patience)
        #expect(again.handling.first?.age ?? .zero >= message.age + .milliseconds(20))
        mayEnd.open()
        #expect(waitUntil { (try? right.info(observing: .milliseconds(1)).handling) == [] })
        withExtendedLifetime(runtime) {}
        thread.stop()
    }

    @Test func `a handler that has one message for seconds makes its port stuck`() {
        func handling(for age: Duration) -> PortInfo {
            var handling = info()
            handling.handling = [
                .init(id: 7, name: nil, isRequest: false, pid: 9, program: "x", age: age, isOlder: true)
            ]
            return handling
        }
        #expect(handling(for: PortInfo.longHandling - .milliseconds(1)).condition == .busy)
        let stuck = handling(for: PortInfo.longHandling)
        #expect(stuck.condition == .stuck)
        #expect(
            stuck.trouble?.hasPrefix("a message of id 7 of x (pid 9) is being handled, and for 2.0 s no end was seen: ")
                == true, "\(stuck.trouble ?? "")")
    }

    @Test func `a handler that does not return makes its port stuck, and is named`() throws {
        let (began, mayEnd) = (Latch(), Latch())
        let port = try port { _ in
            began.open()
            _ = mayEnd.wait(until: .patience)
        }
        let thread = try served(port)
        for _ in 0..<2 { try port.sendRight.send(MachPort.Message()) }
        #expect(began.wait(until: .patience))
        let (right, runtime) = try stranger(to: port)
        let info = try right.info(observing: .milliseconds(50), before: .patience)
        let loop = try #require(info.takers.loops.first)
        #expect(info.condition == .stuck)
        #expect(info.queue.waiting == 1)
        #expect(info.queue.received == 1)
        #expect(loop.serves)
        #expect(loop.callout?.contains("source") == true)
        #expect(!loop.isWaiting)
        #expect(loop.busyFor ?? .zero >= .milliseconds(50))
        #expect(loop.isBusyForLonger)
        #expect(loop.description.contains("busy for at least "))
        // Another question is about all the time since.
        let again = try right.info(observing: .milliseconds(50), before: .patience)
        #expect(again.takers.loops.first?.busyFor ?? .zero >= .milliseconds(100))
        mayEnd.open()
        #expect(waitUntil { (try? right.info(before: .patience).condition) == .served })
        withExtendedLifetime(runtime) {}
        thread.stop()
    }

    @Test func `a queue, a task, a thread and another loop are told`() async throws {
        let queue = try MachPort { _ in }
        try queue.setQueue(DispatchQueue(label: "com.example.queue"))
        let info = try await queue.sendRight.info()
        #expect(info.takers.queue?.label == "com.example.queue")
        #expect(info.condition == .served)

        let other = try MachPort()
        let descriptor = try PortDescriptor(other)
        #expect(try await other.sendRight.info().takers.descriptors == 1)
        withExtendedLifetime(descriptor) {}

        let taken = try MachPort()
        let task = Task { try await taken.receive() }
        #expect(await waitUntil { taken.receiver.takers.look.waiters.count == 1 })
        #expect(try await taken.sendRight.info().takers.waitingTasks == 1)
        task.cancel()
        _ = await task.result

        let thread = Helper { () -> Bool in (try? taken.receive(before: .patience)) != nil }
        #expect(await waitUntil { taken.receiver.takers.look.waiters.count == 1 })
        let waited = try await taken.sendRight.info()
        #expect(waited.takers.waitingThreads == 1)
        #expect(waited.condition == .served)
        #expect(waited.takerTexts.count == 1)
        try await taken.sendRight.send(MachPort.Message())
        #expect(thread.value() == true)
    }

    @Test func `a port that gets more than it handles is flooded, and by whom`() throws {
        // Each message takes its time.
        let port = try port({ _ in _ = Latch().wait(until: .now + .milliseconds(2)) }, queueLimit: 200)
        let thread = try served(port)
        let (right, runtime) = try stranger(to: port)
        let stop = Shared(false)
        let flood = Helper { () -> Bool in
            while !stop.withLock({ $0 }) { try? right.send(MachPort.Message(), before: .now + .seconds(1)) }
            return true
        }
        #expect(waitUntil { (try? right.statistics().waiting) ?? 0 >= 200 })
        var info = try right.info(observing: .milliseconds(100), before: .patience)
        // A sender that waits for room sends again when half of the queue is taken: on a busy machine, after the look.
        let deadline = MonotonicInstant.now + .seconds(30)
        while info.senders.first?.recently == 0, !deadline.hasPassed {
            info = try right.info(observing: .milliseconds(300), before: .patience)
        }
        #expect(info.condition == .flooded)
        #expect(info.queue.handled > 0)
        #expect(info.queue.waiting >= 50)
        #expect(info.senders.first?.recently ?? 0 > 0)
        #expect(info.trouble?.contains("(pid \(getpid()))") == true)
        stop.withLock { $0 = true }
        #expect(flood.value() == true)
        withExtendedLifetime(runtime) {}
        thread.stop()
    }

    @Test func `a loop that is looked at says exactly how long it is busy`() throws {
        let (began, mayEnd) = (Latch(), Latch())
        let port = try port { _ in
            began.open()
            _ = mayEnd.wait(until: .patience)
        }
        let thread = try served(port)
        #expect(waitUntil { (try? port.sendRight.info(before: .patience).takers.loops.first?.isWaiting) == true })
        try port.sendRight.send(MachPort.Message())
        #expect(began.wait(until: .patience))
        let loop = try #require(
            try port.sendRight.info(observing: .milliseconds(20), before: .patience).takers.loops.first)
        #expect(loop.busyFor ?? .zero >= .milliseconds(20))
        #expect(!loop.isBusyForLonger)
        mayEnd.open()
        thread.stop()
    }

    @Test func `a task that iterates serves its port also while it handles a message`() async throws {
        let port = try port()
        let began = Shared(0)
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            for await _ in port.messages {
                began.withLock { $0 += 1 }
                for await _ in gate { break }
            }
        }
        let right = port.sendRight
        try await right.send(MachPort.Message())
        #expect(await waitUntil { began.withLock { $0 } == 1 })
        let busy = try await right.info(observing: .milliseconds(20))
        #expect(busy.takers.iteratingTasks == 1)
        #expect(busy.takers.waitingTasks == 0)
        #expect(busy.condition == .busy)
        #expect(busy.takerTexts == ["a task that handles a message in `for await`"])
        try await right.send(MachPort.Message())
        let stuck = try await right.info(observing: .milliseconds(20))
        #expect(stuck.condition == .stuck)
        #expect(stuck.trouble?.contains("a task that handles a message") == true)
        opener.finish()
        #expect(await waitUntil { began.withLock { $0 } == 2 })
        task.cancel()
        await task.value
        #expect(try await right.info(observing: .zero).takers.iteratingTasks == 0)
    }

    @Test func `a thread or a task that receives by itself is busy with its message, until it asks for the next`()
        async throws
    {
        let port = try port()
        let right = port.sendRight
        try await right.send(MachPort.Message())
        #expect(try await right.info(observing: .milliseconds(20)).condition == .unserved)
        _ = try await port.receive(before: .patience)
        let busy = try await right.info(observing: .milliseconds(20))
        #expect(busy.takers.isReceiverAway)
        #expect(busy.condition == .busy)
        #expect(!busy.isUnserved)
        #expect(busy.trouble == nil)
        #expect(busy.takerTexts.count == 1)
        #expect(busy.takerTexts.first?.hasPrefix("a thread or task that has taken a message") == true)

        try await right.send(MachPort.Message())
        let stuck = try await right.info(observing: .milliseconds(20))
        #expect(stuck.condition == .stuck)
        #expect(stuck.trouble?.contains("`receive(before:)`") == true)
        #expect(stuck.remedy?.contains("`receive(before:)`") == true)
        _ = try await port.receive(before: .patience)
        // An asker without an answer has nothing to do.
        await #expect(throws: PortError.self) { try await port.receive(before: .now) }
        let unserved = try await right.info(observing: .milliseconds(20))
        #expect(!unserved.takers.isReceiverAway)
        #expect(unserved.condition == .unserved)

        // A task in `for await` that has ended has nothing to do either.
        try await right.send(MachPort.Message())
        for await _ in port.messages { break }
        let ended = try await right.info(observing: .milliseconds(20))
        #expect(!ended.takers.isReceiverAway)
        #expect(ended.isUnserved)
        // A port that was read once, and is in a loop now, has no receiver.
        try await right.send(MachPort.Message())
        _ = try await port.receive(before: .patience)
        let thread = try await RunLoopThread()
        try port.schedule(in: thread.loop)
        #expect(try await !right.info(observing: .milliseconds(20)).takers.isReceiverAway)
        thread.stop()
    }

    private func flooded(handled: Int = 100, by senders: PortInfo.Sender...) -> PortInfo {
        info(handled: handled, waiting: 20_000, senders: senders)
    }

    private func info(
        busyFor: Duration? = nil, observed: Duration = .milliseconds(300), handled: Int = 0, waiting: Int = 0,
        queue: PortInfo.Takers.Queue? = nil, senders: [PortInfo.Sender] = [],
        handlers: PortInfo.Takers.Handlers? = nil,
        requestCount: Int = 0, requests: [PortInfo.Request] = []
    ) -> PortInfo {
        let loop = PortInfo.Loop(
            thread: 5, threadName: "t", modes: ["m"], running: ["m"], isWaiting: false, callout: "source",
            busyFor: busyFor,
            isBusyForLonger: false, isComputing: true)
        return PortInfo(
            takers: .init(
                hasHandler: handlers == nil, loops: queue == nil && handlers == nil ? [loop] : [], queue: queue,
                waitingThreads: 0, waitingTasks: 0, servingTasks: 0, iteratingTasks: 0, isReceiverAway: false,
                descriptors: 0, handlingThreads: handlers == nil ? 1 : 0, handlers: handlers),
            queue: .init(
                received: 100, waiting: waiting, limit: 1000, observed: observed, handled: handled,
                waitingBefore: waiting),
            senders: senders, requests: .init(count: requestCount, lasting: 1, oldest: requests), handling: [],
            awaited: [])
    }

    private func sender(
        _ pid: Int32, sent: Int, recently: Int = 0, taken: Int = 0, sinceEmpty: Int? = nil, hasEnded: Bool = false
    ) -> PortInfo.Sender {
        .init(
            pid: pid, program: "/srv/bin/x", sent: sent, recently: recently, taken: taken,
            sinceEmpty: sinceEmpty ?? sent, hasEnded: hasEnded, requests: 0)
    }

    @Test func `the sender of the messages that wait is to blame, not one that has sent a few meanwhile`() {
        func trouble(_ info: PortInfo, _ pid: Int32) -> String {
            #expect(info.condition == .flooded)
            #expect(info.busiestSender?.pid == pid)
            return info.trouble ?? ""
        }
        // A burst that is over, or waits for room.
        let burst = sender(7, sent: 25_000, taken: 95)
        let text = trouble(flooded(by: sender(8, sent: 10, recently: 5, taken: 5), burst), 7)
        #expect(text.hasSuffix("of work: x (pid 7) has sent 95 of the last 100 taken"), "\(text)")
        // Many messages long ago fill no queue.
        #expect(!trouble(flooded(by: sender(8, sent: 1_000_000, recently: 5, taken: 5), burst), 7).isEmpty)
        let former = sender(8, sent: 1_000_000, recently: 5, taken: 5, sinceEmpty: 105)
        let slow = trouble(flooded(handled: 1, by: former, sender(7, sent: 25_000)), 7)
        #expect(slow.hasSuffix("x (pid 7) has sent 25000 of the 25105 that came since none waited"), "\(slow)")
        // A sender that still sends.
        let fast = trouble(flooded(by: sender(8, sent: 30, recently: 20), sender(7, sent: 25_000, recently: 90)), 7)
        #expect(fast.hasSuffix("as fast as they are taken: x (pid 7) has sent 90 of the last 110"), "\(fast)")
        // A sender that is gone.
        let gone = flooded(
            by: sender(8, sent: 30, recently: 5, taken: 5), sender(7, sent: 22_000, taken: 95, hasEnded: true))
        #expect(trouble(gone, 7).contains(": x (pid 7), which has ended, has sent 95 of the last 100 taken"))
        #expect(gone.remedy?.contains("let that process") == false)
        // These were never asked, and may have sent nothing.
        let unasked = (8...9).map { sender($0, sent: 0, sinceEmpty: 20_000, hasEnded: true) }
        #expect(flooded(by: unasked[0]).busiestSender?.pid == 8)
        let unknown = flooded(by: unasked[0], unasked[1])
        #expect(unknown.busiestSender == nil)
        #expect(unknown.remedy?.contains("let that process") == false)
        #expect(
            trouble(flooded(by: unasked[0], unasked[1], sender(7, sent: 20_000, hasEnded: true)), 7).contains(
                "x (pid 7)"))
    }

    @Test func `a handler is stuck when others wait, or after some time`() {
        #expect(info(busyFor: .milliseconds(900)).condition == .busy)
        #expect(info(busyFor: .milliseconds(900)).trouble == nil)
        #expect(info(busyFor: .zero).remedy == nil)
        let stuck = info(busyFor: .seconds(2))
        #expect(stuck.condition == .stuck)
        #expect(stuck.trouble?.hasPrefix("a message is being handled, and for 2.0 s") == true)
        #expect(info(observed: .seconds(2)).condition == .stuck)
        #expect(info(busyFor: .milliseconds(900), waiting: 1).condition == .stuck)
        #expect(info(busyFor: .seconds(9), handled: 1).condition == .served)
        let idle = info(waiting: 1, queue: .init(label: "q", isBusy: false))
        #expect(idle.condition == .stuck)
        #expect(idle.trouble?.hasSuffix("the dispatch queue “q”") == true)
        let busy = info(waiting: 1, queue: .init(label: "q", isBusy: true))
        #expect(busy.trouble?.hasSuffix("the dispatch queue “q”, which is busy") == true)
    }

    @Test func `a request that has no reply for long is told, but not a stream`() {
        func request(
            _ age: Duration, mayLast: Bool = false, isReplying: Bool = false, isCancelled: Bool = false
        ) -> PortInfo.Request {
            .init(
                id: 7, name: "Lookup", pid: 8, program: "x", age: age, mayLast: mayLast, isReplying: isReplying,
                isCancelled: isCancelled)
        }
        let some = PortInfo.Takers.Handlers(count: 3, limit: 100)
        let stream = request(.seconds(900), mayLast: true)
        #expect(info(handlers: some, requestCount: 0, requests: [stream]).condition == .busy)
        #expect(info(handlers: .init(count: 0, limit: 100), requests: [stream]).condition == .served)
        let busy = info(handlers: some, requestCount: 3, requests: [stream, request(.milliseconds(1900))])
        #expect(busy.condition == .busy)
        #expect(busy.trouble == nil)
        #expect(busy.remedy == nil)
        let slow = info(handled: 1, handlers: some, requestCount: 3, requests: [stream, request(.seconds(2))])
        #expect(slow.condition == .slow)
        #expect(slow.trouble == "3 requests are in progress, the oldest: Lookup of x (pid 8), taken 2.0 s ago")
        #expect(slow.remedy?.contains("see what its handler awaits") == true)
        let one = info(handlers: some, requestCount: 1, requests: [request(.seconds(61), isCancelled: true)])
        #expect(
            one.trouble
                == "1 request is in progress: Lookup of x (pid 8), taken 61.0 s ago, not waited for any more")
        #expect(one.remedy?.contains("cancelled") == true)
        let kept = info(busyFor: .zero, handled: 1, requestCount: 1, requests: [request(.seconds(2))])
        #expect(kept.condition == .slow)
        #expect(kept.remedy?.contains("right to reply") == true)

        // The asker does not take its reply.
        let replying = info(handlers: some, requestCount: 1, requests: [request(.seconds(9), isReplying: true)])
        #expect(replying.condition == .busy)
        #expect(replying.requests.oldest[0].description.contains("reply waits for room"))
        // A flood does not hide it.
        let both = info(
            handled: 1, waiting: 500, handlers: some, requestCount: 99, requests: [request(.seconds(60))])
        #expect(both.condition == .flooded)
        #expect(both.trouble?.contains("; 99 requests are in progress, the old") == true)
        #expect(both.remedy?.contains("see what its handler awaits") == true)

        // No handler is left.
        let short = info(
            waiting: 4, handlers: .init(count: 2, limit: 2), requestCount: 2, requests: [request(.milliseconds(600))])
        #expect(short.condition == .busy)
        #expect(short.trouble == nil)
        let full = info(
            waiting: 4, handlers: .init(count: 100, limit: 100), requestCount: 100, requests: [request(.seconds(61))])
        #expect(full.condition == .stuck)
        #expect(full.remedy?.contains("`atMost`") == true)
        #expect(
            full.trouble
                == "4 messages wait, and none was taken in a look of 0.3 s: all 100 handlers are at work; "
                + "the oldest request in progress: Lookup of x (pid 8), taken 61.0 s ago")

        // A lane has no room, so nothing is taken, though others have handlers left.
        for (lane, text) in [("jobs", "the lane “jobs”"), ("", "requests without a lane")] {
            let handlers = PortInfo.Takers.Handlers(count: 2, limit: 102, fullLane: lane)
            let blocked = info(
                waiting: 4, handlers: handlers, requestCount: 9, requests: [request(.milliseconds(600))])
            #expect(blocked.condition == .busy)
            let stuck = info(waiting: 4, handlers: handlers, requestCount: 9, requests: [request(.seconds(3))])
            #expect(stuck.condition == .stuck)
            let reason = "all handlers of \(text) are at work, and no more requests may wait for them; the oldest"
            #expect(stuck.trouble?.contains(reason) == true)
            #expect(BoundedCoding.decode(from: BoundedCoding.encode(handlers)) == handlers)
        }
    }

    @Test func `a flood is told by its sender, also when that has ended`() throws {
        let isSlow = Shared(false)
        let port = try MachPort(queueLimit: 30_000, nameServer: sandbox.names) { _ in
            if isSlow.withLock({ $0 }) { _ = Latch().wait(until: .now + .milliseconds(2)) }
        }
        for name in ["asked", "test"] { try sandbox.names.register(port, name: name) }
        let thread = try served(port)
        let (right, runtime) = try stranger(to: port)
        // More than the flood, in all.
        for _ in 0..<20_000 { try right.send(MachPort.Message(), before: .patience) }
        #expect(waitUntil { port.receiver.intake.totals.taken == 20_000 })
        isSlow.withLock { $0 = true }
        let feeder = Child("bytes", "10000", "10", in: sandbox)
        func isBlamed(_ hasEnded: Bool) -> Bool {
            try? right.send(MachPort.Message(), before: .patience)
            guard let info = try? right.info(observing: .milliseconds(300), before: .patience) else {
                return false
            }
            let (sender, text) = (info.busiestSender, info.trouble ?? "")
            return info.condition == .flooded && sender?.pid == feeder.pid && sender?.hasEnded == hasEnded
                && text.contains("PortsTestHelper (pid \(feeder.pid))")
                && text.contains(", which has ended") == hasEnded
        }
        #expect(waitUntil { isBlamed(false) })
        feeder.kill()
        #expect(waitUntil { isBlamed(true) })
        isSlow.withLock { $0 = false }
        #expect(waitUntil { (try? right.info(before: .patience).senders.map(\.hasEnded)) == [false] })
        withExtendedLifetime(runtime) {}
        thread.stop()
    }

    @Test func `who has only looked the port's name up is not blamed`() throws {
        let port = try port()
        let (right, runtime) = try stranger(to: port)
        for _ in 0..<50 { try right.send(MachPort.Message(), before: .patience) }
        // A sender that does not answer in a tenth of a second counts with its last answer.
        #expect(waitUntil { (try? right.statistics(before: .patience).waiting) == 50 })
        // The count may have overtaken the messages.
        #expect(waitUntil { !port.receiver.intake.look().isEmpty })
        port.receiver.unaskedSenderDied(ProcessIdentity(pid: 1, program: "ping"))
        let info = try right.info(observing: .milliseconds(20), before: .patience)
        #expect(info.busiestSender?.pid == getpid())
        #expect(info.queue.waiting == 50)
        #expect(info.senders.contains { $0.hasEnded && $0.sinceEmpty == 0 })
        withExtendedLifetime(runtime) {}
    }

    @Test func `a sender that has ended before anybody has asked is known`() throws {
        let port = try port()
        try sandbox.names.register(port, name: "test")
        let feeder = Child("bytes", "10", "10", in: sandbox)
        // Without a question to the feeder. Its control connection may come after its messages.
        #expect(waitUntil { !port.receiver.look().isEmpty })
        #expect(waitUntil { !sandbox.names.runtime.control.watchers(of: port.id.number).isEmpty })
        feeder.kill()
        let (right, runtime) = try stranger(to: port)
        #expect(
            waitUntil {
                let info = try? right.info(observing: .milliseconds(20), before: .patience)
                return info?.busiestSender?.description == "PortsTestHelper (pid \(feeder.pid)), which has ended"
            })
        // Not any more, when its messages were taken.
        while !port.receiver.look().isEmpty { _ = try port.receive(before: .patience) }
        #expect(try right.info(observing: .milliseconds(20), before: .patience).senders.isEmpty)
        withExtendedLifetime(runtime) {}
    }

    @Test func `a process that waits for another says for which port`() throws {
        let silent = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(silent, name: "silent")
        let answered = Latch()
        let port = try port { _ in
            _ = try? RemoteMessagePort(silent.sendRight).request(id: 1, timeout: .seconds(60))
            answered.open()
        }
        let thread = try served(port)
        try port.sendRight.send(MachPort.Message())
        #expect(waitUntil { silent.receiver.look().statistics.waiting == 1 })
        let info = try port.sendRight.info(observing: .milliseconds(20), before: .patience)
        #expect(info.condition == .busy)
        let awaited = try #require(info.awaited.first { $0.port == silent.id.description })
        #expect(awaited.replies == 1)
        #expect(awaited.title.hasPrefix("port “silent” of "))
        silent.invalidate()
        #expect(answered.wait(until: .patience))
        thread.stop()
    }

    @Test func `an owner that is stopped costs the asker no more than its time`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        #expect(try right.info(before: .patience).pid == child.pid)
        child.stop()
        #expect(errorKind { _ = try right.info(before: .now + .milliseconds(50)) } == "receiveTimedOut")
        child.signal(SIGCONT)
        #expect(try right.info(before: .patience).condition == .unserved)
        child.kill()
        child.wait()
        #expect(waitUntil { !right.isValid })
        #expect(errorKind { _ = try right.info() } == "isInvalid")
    }

    @Test func `the end of the owner ends the wait for its answer`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        _ = try right.info(before: .patience)
        child.stop()
        let asker = Helper { errorKind { _ = try right.info(before: .patience) } }
        child.kill()
        // The end may have come first.
        #expect(["becameInvalid", "isInvalid"].contains(asker.value()))
    }

    @Test(.ownSleepingThread)
    func `questions have a bound, and answers go to their asker alone`() throws {
        let runtime = PortRuntime(directory: sandbox.path)
        let (inspector, mine) = (runtime.inspector, runtime.incarnation)
        let port = try MachPort(nameServer: runtime.nameServer) { _ in }
        try port.sendRight.send(MachPort.Message())
        let answers = try MachPort(nameServer: runtime.nameServer)
        func question(_ question: PortQuestion, _ number: UInt64? = nil) -> QuestionPacket {
            QuestionPacket(
                number: number ?? port.id.number, answers: answers.receiver.channel.right,
                question: BoundedCoding.encode(question))
        }
        let short = question(.info(observing: .milliseconds(500)))
        inspector.asked(short, by: .random())
        #expect(inspector.openCount == 0)
        // No observation ends while the library's own thread waits.
        let (isHeld, goesOn) = (Latch(), Latch())
        try runtime.housekeeping.loop().perform {
            isHeld.open()
            _ = goesOn.wait(until: .patience)
        }
        #expect(isHeld.wait(until: .patience))
        for _ in 0..<100 { inspector.asked(short, by: mine) }
        #expect(inspector.openCount == 64)
        goesOn.open()
        // Other kinds of questions have bounds of their own.
        for other in [PortQuestion.info(observing: .seconds(10)), .recordings(for: .seconds(10))] {
            inspector.asked(question(other), by: mine)
        }
        // Askers beyond the limit are told so at once.
        for _ in 0..<36 {
            let answer = try answers.receiver.receive(before: .patience)
            #expect(answer.header.id == AnswerKind.busy.rawValue)
        }
        #expect(waitUntil { inspector.openCount == 2 })
        // A malformed question gets no answer, and a port that is not there is answered at once.
        port.invalidate()
        #expect(waitUntil { inspector.openCount == 0 })
        inspector.asked(question(.statistics, 0), by: mine)
        let malformed = QuestionPacket(number: 0, answers: answers.receiver.channel.right, question: [1, 2])
        inspector.asked(malformed, by: mine)
        #expect(waitUntil { inspector.openCount == 0 })
        let served = try served(answers)
        served.stop()
    }

    @Test func `values of other processes are within their bounds`() throws {
        struct Value: Codable, Equatable {
            var count = 1
            var id = UInt32.max
            var time = 1.5
            var text: String? = "two"
            var list = ["a", "b"]
            var duration: Duration? = .milliseconds(3)
            var flag = true
            var inner: [Value]? = []
        }
        func decoded(_ value: Value) -> Value? { BoundedCoding.decode(from: BoundedCoding.encode(value)) }
        #expect(decoded(Value()) == Value())
        let none = Value(text: nil, duration: nil, inner: nil)
        #expect(decoded(none) == none)
        let (long, most) = (String(repeating: "é", count: 5000), BoundedCoding.most)
        let hostile = Value(
            count: -5, time: .nan, text: long, list: Array(repeating: long, count: 2000), duration: .seconds(-1),
            inner: [Value(count: .max, time: 1e300, duration: .seconds(Int64.max))])
        let bounded = try #require(decoded(hostile))
        #expect(bounded.count == 0)
        #expect(bounded.time == 0)
        #expect(bounded.text?.utf8.count == most)
        #expect(bounded.list.count == most)
        #expect(bounded.list.allSatisfy { $0.utf8.count == most })
        #expect(bounded.duration == .zero)
        #expect(bounded.inner?.first?.count == BoundedCoding.mostCount)
        #expect(bounded.inner?.first?.time == 253_402_300_799)
        #expect(bounded.inner?.first?.duration == .nanoseconds(Int64.max))

        let bytes = BoundedCoding.encode(Value())
        for count in 0..<bytes.count { #expect(BoundedCoding.decode(Value.self, from: Array(bytes[..<count])) == nil) }
        var generator = SplitMix64(seed: drawnSeed())
        for _ in 0..<2000 {
            guard let spoilt = BoundedCoding.decode(Value.self, from: Samples.spoilt([bytes], &generator)) else {
                continue
            }
            #expect((0...BoundedCoding.mostCount).contains(spoilt.count))
        }
    }
}
