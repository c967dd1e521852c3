import CoreFoundation
import Foundation
import FoundationPorts
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct NSMachPortTests {
    @Test func `threads talk, and the port for the answer is the very object of the other thread`() {
        let main = NSMachPort()
        var worker: Port?
        var answers: [String] = []
        let receiver = Receiver { message in
            #expect(message.receivePort === main)
            if message.msgid == 100 {
                worker = message.sendPort
                #expect(worker?.send(1, "work") == true)
            } else {
                answers += message.texts
            }
        }
        main.setDelegate(receiver)
        RunLoop.current.add(main, forMode: .default)
        let thread = Helper { () -> UInt32 in
            let own = NSMachPort()
            var isDone = false
            let receiver = Receiver { message in
                #expect(message.sendPort == nil)
                #expect(message.texts == ["work"])
                #expect(main.send(2, "done"))
                isDone = true
            }
            own.setDelegate(receiver)
            RunLoop.current.add(own, forMode: .default)
            let message = PortMessage(sendPort: main, receivePort: own, components: nil)
            message.msgid = 100
            #expect(message.send(before: Date()))
            runLoop { isDone }
            let number = own.machPort
            own.invalidate()
            return number
        }
        runLoop { !answers.isEmpty }
        #expect(answers == ["done"])
        #expect(thread.value() == (worker as? NSMachPort)?.machPort || worker?.isValid == false)
        main.invalidate()
    }

    @Test func `there is one object for each port while somebody keeps the object`() throws {
        let port = NSMachPort()
        let right = try #require(port.sendRight)
        #expect(NSMachPort(right) === port)
        #expect(NSMachPort(machPort: port.machPort) === port)
        let found: Port = NSMachPort.port(withMachPort: port.machPort, options: .deallocateReceiveRight)
        #expect(found === port)
        #expect(port.machPort != NSMachPort().machPort)
        #expect(port != NSMachPort())
        let other = MessagePort(right)
        #expect(other !== port)
        #expect(other == port)
        #expect(other.hash == port.hash)
        #expect(!NSMachPort(machPort: 7).isValid)
        #expect(port.copy() as? Port == port)
    }

    @Test func `a port that can receive takes the place of one that can only send`() throws {
        let end = try MachPort()
        let sender = NSMachPort(end.sendRight)
        let port = NSMachPort(end)
        var count = 0
        let receiver = Receiver { _ in count += 1 }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        #expect(sender.send(1))
        _ = RunLoop.current.run(mode: .default, before: .now + 10)
        #expect(count == 1)
        #expect(NSMachPort(end.sendRight) === port)
        #expect(sender == port)
        port.invalidate()
    }

    @Test func `threads that wrap a port at the same time get one object, and the port lives`() throws {
        for _ in 0..<300 {
            let (end, ready) = (try MachPort(), Shared(0))
            let threads = (0..<2).map { _ in
                Helper {
                    ready.withLock { $0 += 1 }
                    while ready.withLock({ $0 }) < 2 {}
                    return NSMachPort(end)
                }
            }
            let ports = threads.map { $0.value() }
            #expect(end.isValid)
            #expect(ports[0] === ports[1])
            end.invalidate()
        }
    }

    @Test func `a subclass whose delegate method uses the port gets messages`() {
        final class Asking: NSMachPort, @unchecked Sendable {
            override func delegate() -> (any PortDelegate)? { isValid ? super.delegate() : nil }
        }
        let port = Asking()
        var count = 0
        let receiver = Receiver { _ in count += 1 }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        #expect(port.send(1))
        _ = RunLoop.current.run(mode: .default, before: .now + 10)
        #expect(count == 1)
        port.invalidate()
    }

    @Test func `components are data and ports`() throws {
        let port = NSMachPort()
        var received: PortMessage?
        let receiver = Receiver { received = $0 }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let (sent, far) = (NSMachPort(), try MachPort())
        let parts: [Any] = [Data([1, 2]), sent, NSData(), NSMachPort(far.sendRight)]
        let message = PortMessage(sendPort: port, receivePort: sent, components: parts)
        message.msgid = .max
        #expect(message.send(before: .distantPast))
        runLoop { received != nil }
        let components = try #require(received?.components)
        #expect(received?.msgid == .max)
        #expect(received?.sendPort === sent)
        #expect(components.count == 4)
        #expect(components[0] as? Data == Data([1, 2]))
        #expect((components[0] as? NSData)?.length == 2)
        #expect((components[1] as? NSMachPort) === sent)
        #expect(components[2] as? Data == Data())
        #expect((components[3] as? NSMachPort)?.sendRight == far.sendRight)
        // Text, which no port can carry, is not sent.
        #expect(!port.send(before: .patience, components: NSMutableArray(array: ["text"]), from: nil, reserved: 0))
        #expect(!port.send(1, from: SocketPort()))
        #expect(port.reservedSpaceLength == 0)
        port.invalidate()
    }

    @Test func `an open file arrives as a handle of its own`() throws {
        let port = NSMachPort()
        var received: PortMessage?
        let receiver = Receiver { received = $0 }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let pipe = Pipe()
        let parts: [Any] = [Data([1]), pipe.fileHandleForWriting]
        #expect(PortMessage(sendPort: port, receivePort: nil, components: parts).send(before: .patience))
        runLoop { received != nil }
        let file = try #require(received?.components?.last as? FileHandle)
        #expect(file.fileDescriptor != pipe.fileHandleForWriting.fileDescriptor)
        try pipe.fileHandleForWriting.close()
        try file.write(contentsOf: Data("whole".utf8))
        try file.close()
        #expect(try pipe.fileHandleForReading.readToEnd() == Data("whole".utf8))
        port.invalidate()
    }

    @Test func `data arrives whole, and as quickly as memory is copied`() {
        let port = NSMachPort()
        var received: Data?
        let receiver = Receiver { received = $0.components?.first as? Data }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let data = Data((0..<(8 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        let start = threadTime()
        #expect(
            PortMessage(sendPort: port, receivePort: nil, components: [NSMutableData(data: data)]).send(
                before: .patience))
        runLoop { received != nil }
        // Byte by byte, it would take seconds.
        #expect(threadTime() - start < .milliseconds(900))
        #expect(received == data)
        #expect(NSData() as Data == Data())
        port.invalidate()
    }

    @Test func `a full port takes no message until the date`() throws {
        let port = NSMachPort(try MachPort(queueLimit: 1))
        let start = ContinuousClock.now
        while port.send(1, before: .now + 0.1) {}
        #expect(.now - start >= .milliseconds(100))
        #expect(!port.send(1, before: .distantPast))
    }

    @Test func `each message to a port without a delegate ends a sleep, and is gone`() {
        for port in [NSMachPort(), MessagePort()] {
            RunLoop.current.add(port, forMode: .default)
            // More than the port's queue takes.
            for id in 0..<1100 {
                guard port.send(id, before: .distantPast) else {
                    Issue.record("message \(id) has no room")
                    break
                }
                let deadline = Date.now + 10
                #expect(RunLoop.current.run(mode: .default, before: deadline))
                guard Date.now < deadline else {
                    Issue.record("message \(id) did not end the sleep")
                    break
                }
            }
            port.invalidate()
        }
    }

    @Test func `messages that wait before a loop runs get to the delegate of the run`() {
        let port = NSMachPort()
        RunLoop.current.add(port, forMode: .default)
        #expect(port.send(1))
        #expect(port.send(2))
        do {
            let gone = Receiver { _ in Issue.record("a delegate that is gone got a message") }
            port.setDelegate(gone)
        }
        #expect(port.delegate() == nil)
        // This run takes the first.
        #expect(RunLoop.current.run(mode: .default, before: .patience))
        var received: [UInt32] = []
        let receiver = Receiver { received.append($0.msgid) }
        port.setDelegate(receiver)
        #expect(port.delegate() === receiver)
        #expect(port.send(3))
        runLoop { received.count == 2 }
        #expect(received == [2, 3])
        port.invalidate()
    }

    @Test func `a delegate may leave the method out`() {
        final class Silent: NSObject, NSMachPortDelegate {}
        let (port, silent) = (NSMachPort(), Silent())
        port.setDelegate(silent)
        RunLoop.current.add(port, forMode: .default)
        #expect(port.send(1))
        #expect(RunLoop.current.run(mode: .default, before: .patience))
        port.invalidate()
    }

    @Test func `a port in a thread's own loop and one in Foundation's talk`() throws {
        let port = NSMachPort()
        var answer: String?
        let receiver = Receiver { answer = $0.texts.first }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let thread = try RunLoopThread { _ in }
        let far = try MachPort { message in
            guard case .bytes(let bytes)? = message.components.first else { return }
            try? message.replyPort?.send(MachPort.Message(id: 2, bytes: bytes.reversed()))
        }
        try far.schedule(in: thread.loop)
        #expect(NSMachPort(far.sendRight).send(1, "olleh", from: port))
        runLoop { answer != nil }
        #expect(answer == "hello")
        thread.stop()
        port.invalidate()
    }

    @Test func `a subclass is its own delegate`() {
        final class Own: NSMachPort, PortDelegate, @unchecked Sendable {
            var ids: [UInt32] = []
            override init() {
                super.init()
                setDelegate(self)
            }
            func handle(_ message: PortMessage) { ids.append(message.msgid) }
        }
        let port = Own()
        RunLoop.current.add(port, forMode: .default)
        #expect(port.send(3))
        runLoop { !port.ids.isEmpty }
        #expect(port.ids == [3])
        port.invalidate()
    }
}
