import CRunLoopShims
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct PortDescriptorTests {
    let sandbox = Sandbox()

    private func isReadable(_ descriptor: Int32, within milliseconds: Int32 = 0) -> Bool {
        var one = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&one, 1, milliseconds) == 1
    }

    @Test func `the descriptor is readable while a message waits`() throws {
        let port = try MachPort()
        let descriptor = try PortDescriptor(port)
        #expect(!isReadable(descriptor.fileDescriptor))
        for id in 1...3 as ClosedRange<UInt32> { try port.sendRight.send(MachPort.Message(id: id)) }
        for id in 1...3 as ClosedRange<UInt32> {
            #expect(isReadable(descriptor.fileDescriptor, within: 5000))
            #expect(try descriptor.receive()?.id == id)
        }
        #expect(try descriptor.receive() == nil)
        #expect(!isReadable(descriptor.fileDescriptor))
    }

    @Test func `another thread's first message is all that it reports`() throws {
        for _ in 0..<200 {
            let count = Shared(0)
            let port = try MachPort { _ in count.withLock { $0 += 1 } }
            let descriptor = try PortDescriptor(port)
            let sender = Helper { errorKind { try port.sendRight.send(MachPort.Message()) } }
            #expect(isReadable(descriptor.fileDescriptor, within: 20_000))
            #expect(try descriptor.handle() == 1)
            #expect(sender.value() == "none")
            #expect(!isReadable(descriptor.fileDescriptor))
            port.invalidate()
        }
    }

    @Test func `handle calls the handler at most as often as asked`() throws {
        let ids = Shared<[UInt32]>([])
        let port = try MachPort { message in ids.withLock { $0.append(message.id) } }
        for id in 0..<10 as Range<UInt32> { try port.sendRight.send(MachPort.Message(id: id)) }
        let descriptor = try PortDescriptor(port)
        #expect(isReadable(descriptor.fileDescriptor))
        #expect(try descriptor.handle(atMost: 3) == 3)
        #expect(isReadable(descriptor.fileDescriptor))
        #expect(try descriptor.handle(while: { ids.withLock { $0.count } < 5 }) == 2)
        #expect(isReadable(descriptor.fileDescriptor))
        #expect(try descriptor.handle(atMost: 5) == 5)
        #expect(!isReadable(descriptor.fileDescriptor))
        #expect(try descriptor.handle() == 0)
        #expect(ids.withLock { $0 } == Array(0..<10))
    }

    /// An epoll set like CFRunLoop's and NIO's: a message that makes no edge would wait for ever.
    @Test(arguments: [1, 7])
    func `a poller that is edge-triggered gets every message`(_ limit: Int) throws {
        let (count, senders, each) = (Shared(0), 3, 5000)
        let port = try MachPort(queueLimit: 20) { _ in count.withLock { $0 += 1 } }
        let descriptor = try PortDescriptor(port)
        let set = epoll_create1(0)
        defer { close(set) }
        let events = UInt32(EPOLLIN.rawValue) | UInt32(EPOLLET.rawValue)
        try #require(crl_epoll_control(set, EPOLL_CTL_ADD, descriptor.fileDescriptor, events, 1) == 0)
        let peer = PortRuntime(directory: sandbox.path)
        let name = "edges"
        try sandbox.names.register(port, name: name)
        let threads = (0..<senders).map { number in
            Helper {
                errorKind {
                    let right =
                        number == 0 ? try peer.nameServer.port(forName: name, before: .patience) : port.sendRight
                    for _ in 0..<each { try right.send(MachPort.Message(bytes: [1, 2, 3]), before: .patience) }
                }
            }
        }
        while count.withLock({ $0 }) < senders * each {
            var event = crl_event()
            try #require(crl_epoll_wait_one(set, &event, 20_000_000_000) == 1)
            try descriptor.handle(atMost: limit)
        }
        for thread in threads { #expect(thread.value() == "none") }
        #expect(count.withLock { $0 } == senders * each)
    }

    @Test func `a handler that is set while a poller looks in vain gets the message`() throws {
        let (port, count, isSet) = (try MachPort(), Shared(0), Shared(false))
        let descriptor = try PortDescriptor(port)
        // Woken between the look and the lowering of the descriptor.
        let other = WakeHook {
            guard !isSet.withLock({ exchange(&$0, with: true) }) else { return }
            port.setHandler { _ in count.withLock { $0 += 1 } }
        }
        port.receiver.takers.add(other)
        defer { port.receiver.takers.remove(other) }
        try port.sendRight.send(MachPort.Message(id: 1))
        while isReadable(descriptor.fileDescriptor) { try descriptor.handle() }
        #expect(isSet.withLock { $0 })
        #expect(count.withLock { $0 } == 1)
    }

    @Test func `a handler that is away during a look in a handler gets the next message`() throws {
        let (ids, kept) = (Shared<[UInt32]>([]), Shared<PortDescriptor<MachPort>?>(nil))
        let port = try MachPort()
        @Sendable func note(_ message: MachPort.Message) {
            ids.withLock { $0.append(message.id) }
            guard message.id == 1, let descriptor = kept.withLock({ $0 }) else { return }
            port.setHandler(nil)
            #expect(errorKind { try port.sendRight.send(MachPort.Message(id: 2)) } == "none")
            #expect(errorKind { try descriptor.handle() } == "none")
            port.setHandler { note($0) }
        }
        port.setHandler { note($0) }
        kept.withLock { $0 = try? PortDescriptor(port) }
        let descriptor = try #require(kept.withLock { $0 })
        try port.sendRight.send(MachPort.Message(id: 1))
        while isReadable(descriptor.fileDescriptor) { try descriptor.handle(atMost: 1) }
        #expect(ids.withLock { $0 } == [1, 2])
        kept.withLock { $0 = nil }
    }

    @Test func `a poll inside a handler sees the messages that wait`() throws {
        let (ids, kept) = (Shared<[UInt32]>([]), Shared<PortDescriptor<MachPort>?>(nil))
        let port = try MachPort { message in
            ids.withLock { $0.append(message.id) }
            guard message.id == 0, let descriptor = kept.withLock({ $0 }) else { return }
            #expect(isReadable(descriptor.fileDescriptor))
            #expect(errorKind { try descriptor.handle(atMost: 1) } == "none")
        }
        kept.withLock { $0 = try? PortDescriptor(port) }
        let descriptor = try #require(kept.withLock { $0 })
        for id in 0..<3 as Range<UInt32> { try port.sendRight.send(MachPort.Message(id: id)) }
        #expect(try descriptor.handle(atMost: 1) == 1)
        #expect(ids.withLock { $0 } == [0, 1])
        #expect(try descriptor.handle() == 1)
        kept.withLock { $0 = nil }
    }

    /// Each handler polls once more, as with a run of CFRunLoop inside a handler.
    @Test(arguments: [1, 64])
    func `polls inside handlers that wait for edges get all messages`(_ limit: Int) throws {
        let (ids, kept) = (Shared<[UInt32]>([]), Shared<PortDescriptor<MachPort>?>(nil))
        let set = epoll_create1(0)
        defer { close(set) }
        let turn: @Sendable () -> Void = {
            var event = crl_event()
            guard crl_epoll_wait_one(set, &event, 5_000_000_000) == 1 else { return }
            #expect(errorKind { try kept.withLock { $0 }?.handle(atMost: limit) } == "none")
        }
        let port = try MachPort { message in
            ids.withLock { $0.append(message.id) }
            if message.id < 9 { turn() }
        }
        let descriptor = try PortDescriptor(port)
        kept.withLock { $0 = descriptor }
        let events = UInt32(EPOLLIN.rawValue) | UInt32(EPOLLET.rawValue)
        try #require(crl_epoll_control(set, EPOLL_CTL_ADD, descriptor.fileDescriptor, events, 1) == 0)
        for id in 0..<10 as Range<UInt32> { try port.sendRight.send(MachPort.Message(id: id)) }
        turn()
        #expect(ids.withLock { $0 } == Array(0..<10))
        #expect(!isReadable(descriptor.fileDescriptor))
        kept.withLock { $0 = nil }
    }

    @Test func `a loop and a poller share the messages`() throws {
        let count = Shared(0)
        let port = try MachPort(queueLimit: 50) { _ in count.withLock { $0 += 1 } }
        let loop = try RunLoopThread()
        try port.schedule(in: loop.loop)
        let descriptor = try PortDescriptor(port)
        let sender = Helper {
            errorKind {
                for _ in 0..<20_000 { try port.sendRight.send(MachPort.Message(), before: .patience) }
            }
        }
        let polled = Shared(0)
        while count.withLock({ $0 }) < 20_000 {
            if isReadable(descriptor.fileDescriptor, within: 100) {
                let handled = try descriptor.handle(atMost: 5)
                polled.withLock { $0 += handled }
            }
        }
        #expect(sender.value() == "none")
        #expect(count.withLock { $0 } == 20_000)
        #expect(waitUntil { !isReadable(descriptor.fileDescriptor) || (try? descriptor.handle()) == nil })
    }

    @Test func `after the port's end the descriptor is readable and its calls throw`() throws {
        let port = try MachPort { _ in }
        let descriptor = try PortDescriptor(port)
        _ = try descriptor.handle()
        #expect(!isReadable(descriptor.fileDescriptor))
        port.invalidate()
        #expect(isReadable(descriptor.fileDescriptor))
        #expect(errorKind { try descriptor.handle() } == "isInvalid")
        #expect(errorKind { _ = try descriptor.receive() } == "isInvalid")
        #expect(isReadable(descriptor.fileDescriptor))
        #expect(errorKind { _ = try PortDescriptor(port) } == "isInvalid")
    }

    @Test func `a port that its own handler invalidates leaves the descriptor readable`() throws {
        let kept = Shared<MachPort?>(nil)
        let port = try MachPort { _ in kept.withLock { $0 }?.invalidate() }
        kept.withLock { $0 = port }
        let descriptor = try PortDescriptor(port)
        for _ in 0..<3 { try port.sendRight.send(MachPort.Message()) }
        #expect(try descriptor.handle() == 1)
        #expect(isReadable(descriptor.fileDescriptor))
        #expect(errorKind { try descriptor.handle() } == "isInvalid")
        kept.withLock { $0 = nil }
    }

    @Test func `without a handler nothing is reported until there is one`() throws {
        let port = try MachPort()
        let descriptor = try PortDescriptor(port)
        try port.sendRight.send(MachPort.Message(id: 5))
        #expect(try descriptor.handle() == 0)
        #expect(!isReadable(descriptor.fileDescriptor))
        let ids = Shared<[UInt32]>([])
        port.setHandler { message in ids.withLock { $0.append(message.id) } }
        #expect(isReadable(descriptor.fileDescriptor))
        #expect(try descriptor.handle() == 1)
        #expect(ids.withLock { $0 } == [5])
    }

    @Test func `a handler that fills its own port's queue gets an error`() throws {
        let (kept, kinds) = (Shared<MachPort?>(nil), Shared<[String]>([]))
        let port = try MachPort(queueLimit: 2) { _ in
            guard let right = kept.withLock({ $0 })?.sendRight else { return }
            kinds.withLock { $0 = (0..<4).map { _ in errorKind { try right.send(MachPort.Message()) } } }
            kept.withLock { $0 = nil }
        }
        kept.withLock { $0 = port }
        let descriptor = try PortDescriptor(port)
        try port.sendRight.send(MachPort.Message())
        #expect(try descriptor.handle(atMost: 1) == 1)
        #expect(kinds.withLock { $0 }.last == "ownQueueFull")
    }

    @Test func `requests are answered, by the handler or by who receives them`() throws {
        let echo = try LocalMessagePort(nameServer: sandbox.names) { _, data in data }
        let bare = try LocalMessagePort(nameServer: sandbox.names)
        let (echoing, receiving) = (try PortDescriptor(echo), try PortDescriptor(bare))
        let askers = [echo, bare].map { port in
            Helper { (try? RemoteMessagePort(port.sendRight).request(id: 1, [7])) ?? nil }
        }
        while try echoing.handle() == 0 { #expect(isReadable(echoing.fileDescriptor, within: 20_000)) }
        #expect(isReadable(receiving.fileDescriptor, within: 20_000))
        var request: MessagePortRequest?
        while request == nil {
            request = try receiving.receive()
            if request == nil { #expect(isReadable(receiving.fileDescriptor, within: 20_000)) }
        }
        try request?.replyRight?.reply(with: request?.data)
        for asker in askers { #expect(asker.value() == [7]) }
    }

    @Test func `descriptors come and go without a leak`() throws {
        let port = try MachPort { _ in }
        weak var former: PortDescriptor<MachPort>?
        let before = openDescriptors()
        for _ in 0..<100 {
            let descriptor = try PortDescriptor(port)
            former = descriptor
            #expect(try descriptor.handle() == 0)
        }
        #expect(former == nil)
        // Those of other tests come and go.
        #expect(waitUntil { openDescriptors() < before + 100 })
    }
}

private final class WakeHook: Waiter {
    private let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    func wake() { body() }
}
