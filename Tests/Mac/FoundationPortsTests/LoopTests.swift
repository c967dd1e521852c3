import CoreFoundation
import Foundation
import FoundationPorts
import OwnThread
import Ports
import RunLoops
import Synchronization
import TestSupport
import Testing

/// Foundation's ports in Foundation's loops.
@Suite(.ownThread) struct LoopTests {
    @Test func `a run handles one message`() {
        let port = NSMachPort()
        var received: [UInt32] = []
        let receiver = Receiver { received.append($0.msgid) }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        for id in 1...3 { #expect(port.send(id)) }
        for count in 1...3 {
            #expect(RunLoop.current.run(mode: .default, before: .patience))
            #expect(received.count == count)
        }
        #expect(received == [1, 2, 3])
        RunLoop.current.remove(port, forMode: .default)
        #expect(!RunLoop.current.run(mode: .default, before: .patience))
    }

    @Test func `after a stop in a handler the next message waits for the next run`() {
        let port = NSMachPort()
        var received: [UInt32] = []
        let receiver = Receiver { message in
            received.append(message.msgid)
            if message.msgid != 1 { CFRunLoopStop(CFRunLoopGetCurrent()) }
        }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        for id in 1...3 { #expect(port.send(id)) }
        // This run does not return after a source, so it handles the first message and goes on.
        #expect(CFRunLoopRunInMode(.defaultMode, 60, false) == .stopped)
        #expect(received == [1, 2])
        #expect(CFRunLoopRunInMode(.defaultMode, 60, false) == .stopped)
        #expect(received == [1, 2, 3])
        RunLoop.current.remove(port, forMode: .default)
    }

    @Test func `moving between modes loses nothing`() {
        let port = NSMachPort()
        let modes = [RunLoop.Mode.default, RunLoop.Mode("other"), RunLoop.Mode("third")]
        var received: [UInt32] = []
        let receiver = Receiver { received.append($0.msgid) }
        port.setDelegate(receiver)
        let count = 3000
        let sender = Helper { (0..<count).allSatisfy { port.send($0) } }
        var turn = 0
        while received.count < count {
            let mode = modes[turn % 3]
            RunLoop.current.add(port, forMode: mode)
            for _ in 0..<turn % 7 where received.count < count {
                #expect(RunLoop.current.run(mode: mode, before: .patience))
            }
            RunLoop.current.remove(port, forMode: mode)
            turn += 1
        }
        #expect(sender.value() == true)
        #expect(received == (0..<UInt32(count)).map { $0 })
    }

    @Test func `a handler runs the loop, and the messages after its own come in there`() {
        let port = NSMachPort()
        var (depth, deepest, received) = (0, 0, [UInt32]())
        let receiver = Receiver { message in
            depth += 1
            deepest = max(deepest, depth)
            received.append(message.msgid)
            if message.msgid < 20 { #expect(RunLoop.current.run(mode: .default, before: .patience)) }
            depth -= 1
        }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        for id in 1...20 { #expect(port.send(id)) }
        #expect(RunLoop.current.run(mode: .default, before: .patience))
        #expect(received == Array(1...20))
        #expect(deepest == 20)
        port.invalidate()
    }

    @Test func `timers fire beside a port under load`() {
        let port = NSMachPort()
        var (received, fired) = (0, 0)
        let receiver = Receiver { _ in received += 1 }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .common)
        nonisolated(unsafe) let count = { fired += 1 }
        let timer = Timer(timeInterval: 0.001, repeats: true) { _ in count() }
        RunLoop.current.add(timer, forMode: .common)
        let flag = Flag()
        let sender = Helper { while !flag.isSet { _ = port.send(1, before: .now + 0.01) } }
        runLoop { fired >= 20 && received >= 1000 }
        flag.set()
        #expect(sender.value() != nil)
        #expect(fired >= 20)
        timer.invalidate()
        port.invalidate()
    }

    @Test func `a port is added to and removed from the loop of another thread`() throws {
        let (port, started, loop) = (NSMachPort(), Latch(), Held<RunLoop>())
        let ids = Shared<[UInt32]>([])
        let receiver = Receiver { message in ids.withLock { $0.append(message.msgid) } }
        port.setDelegate(receiver)
        let flag = Flag()
        let thread = Helper { () -> Bool in
            let own = RunLoop.current
            #expect(own.getCFRunLoop() === CFRunLoopGetCurrent())
            loop.object = own
            let keeper = NSMachPort()
            own.add(keeper, forMode: .default)
            started.open()
            while !flag.isSet { _ = own.run(mode: .default, before: .patience) }
            keeper.invalidate()
            return true
        }
        #expect(started.wait(until: .patience))
        let other = try #require(loop.object)
        other.add(port, forMode: .default)
        for id in 1...100 { #expect(port.send(id)) }
        waitUntil { ids.withLock { $0.count == 100 } }
        #expect(ids.withLock { $0 } == Array(1...100))
        other.remove(port, forMode: .default)
        #expect(port.send(101))
        // Another loop gets what the former one did not.
        RunLoop.current.add(port, forMode: .default)
        #expect(RunLoop.current.run(mode: .default, before: .patience))
        #expect(ids.withLock { $0.last } == 101)
        flag.set()
        other.add(port, forMode: .default)
        RunLoop.current.remove(port, forMode: .default)
        #expect(port.send(102))
        #expect(thread.value() == true)
        port.invalidate()
        withExtendedLifetime(receiver) {}
    }

    @Test(arguments: [1, 3])
    func `several loops share a port, and each message is handled once`(_ threads: Int) {
        let port = NSMachPort()
        let (ids, count) = (Shared<[UInt32]>([]), 2000)
        let receiver = Receiver { message in ids.withLock { $0.append(message.msgid) } }
        port.setDelegate(receiver)
        let helpers = (0..<threads).map { _ in
            Helper { () -> Bool in
                RunLoop.current.add(port, forMode: .default)
                while port.isValid { _ = RunLoop.current.run(mode: .default, before: .now + 0.05) }
                return true
            }
        }
        for id in 0..<count { #expect(port.send(id)) }
        waitUntil { ids.withLock { $0.count >= count } }
        port.invalidate()
        for helper in helpers { #expect(helper.value() == true) }
        #expect(ids.withLock { Set($0) } == Set(0..<UInt32(count)))
        #expect(ids.withLock { $0.count } == count)
        withExtendedLifetime(receiver) {}
    }

    @Test func `ports without Foundation's messages are handled in batches`() throws {
        weak var weakPort: MachPort?
        do {
            let count = Atomic(0)
            let port = try MachPort { _ in count.add(1, ordering: .relaxed) }
            weakPort = port
            try port.schedule(in: RunLoop.current, forMode: .default, atMost: 5)
            try port.schedule(in: RunLoop.current, forMode: .common, atMost: 5)
            for _ in 0..<8 { try port.sendRight.send(MachPort.Message()) }
            for number in [5, 8] {
                #expect(RunLoop.current.run(mode: .default, before: .patience))
                #expect(count.load(ordering: .relaxed) == number)
            }
        }
        // The loop keeps the port.
        weakPort?.remove(from: RunLoop.current, forMode: .default)
        #expect(weakPort != nil)
        weakPort?.remove(from: RunLoop.current, forMode: .common)
        #expect(weakPort == nil)
        #expect(!RunLoop.current.run(mode: .default, before: .patience))
    }

    /// The usual way to keep a thread's loop from being empty; nobody removes the port.
    @Test func `a thread's ports end with the thread`() throws {
        let folder = TemporaryFolder()
        let names = MessagePortNameServer(PortNameServer(directory: folder.path))
        let weakPorts = Shared<[Weak<SendRightPort>]>([])
        for number in 0..<20 {
            let ended = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                let named = MessagePort()
                names.registerPort(named, name: "thread \(number)")
                for port in [NSMachPort(), named] {
                    RunLoop.current.add(port, forMode: .default)
                    RunLoop.current.add(port, forMode: .common)
                    weakPorts.withLock { $0.append(Weak(port)) }
                }
                let own = try? MachPort()
                try? own?.schedule(in: RunLoop.current, forMode: .default)
                _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.001))
                ended.signal()
            }
            ended.wait()
        }
        #expect(waitUntil { weakPorts.withLock { $0.allSatisfy { $0.object == nil } } })
        #expect(names.port(forName: "thread 3") == nil)
    }

    @Test func `a message port of the library answers in Foundation's loop`() throws {
        let port = try LocalMessagePort { id, data in data.map { $0 + [UInt8(id)] } }
        try port.schedule(in: RunLoop.current, forMode: .default)
        let right = port.sendRight
        let asker = Helper { () -> [UInt8]? in
            do { return try RemoteMessagePort(right).request(id: 3, [1, 2]) } catch { return nil }
        }
        #expect(RunLoop.current.run(mode: .default, before: .patience))
        #expect(asker.value() == [1, 2, 3])
        port.invalidate()
        #expect(throws: PortError.self) { try port.schedule(in: RunLoop.current, forMode: .default) }
        #expect(!RunLoop.current.run(mode: .default, before: .patience))
    }

    @Test func `a flood of four threads and another runtime arrives, each sender's messages in order`() throws {
        let folder = TemporaryFolder()
        let names = PortNameServer(directory: folder.path)
        let own = try MachPort(queueLimit: 50, nameServer: names)
        try names.register(own, name: "flood")
        let port = NSMachPort(own)
        var next: [UInt32: Int] = [:]
        var (count, isOrdered) = (0, true)
        let receiver = Receiver { message in
            let number = Int(message.texts.first ?? "") ?? -1
            if next[message.msgid, default: 0] != number { isOrdered = false }
            next[message.msgid] = number + 1
            count += 1
        }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let peer = PortRuntime(directory: folder.path)
        let far = try peer.nameServer.port(forName: "flood")
        let each = 3000
        var senders = (0..<4).map { sender in
            Helper { (0..<each).allSatisfy { port.send(sender, "\($0)") } }
        }
        senders.append(
            Helper {
                do {
                    for number in 0..<each { try far.send(MachPort.Message(id: 9, bytes: Array("\(number)".utf8))) }
                    return true
                } catch {
                    return false
                }
            })
        runLoop { count == 5 * each }
        for sender in senders { #expect(sender.value() == true) }
        #expect(count == 5 * each)
        #expect(isOrdered)
        withExtendedLifetime(peer) {}
        port.invalidate()
    }
}

final class Flag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { value.load(ordering: .acquiring) }
    func set() { value.store(true, ordering: .releasing) }
}

/// An object that another thread gets.
final class Held<Object: AnyObject>: @unchecked Sendable {
    var object: Object?
}
