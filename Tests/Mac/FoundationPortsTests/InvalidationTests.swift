import CoreFoundation
import Foundation
import FoundationPorts
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct InvalidationTests {
    /// Counts the notifications of a port.
    private final class Observer {
        private let count = Shared(0)
        private let token: any NSObjectProtocol

        init(_ port: Port) {
            let right = (port as? SendRightPort)?.sendRight
            token = NotificationCenter.default.addObserver(
                forName: Port.didBecomeInvalidNotification, object: port, queue: nil
            ) { [count] notice in
                // When the port is released, an object of another test may have its address.
                if (notice.object as? SendRightPort)?.sendRight == right { count.withLock { $0 += 1 } }
            }
        }

        deinit { NotificationCenter.default.removeObserver(token) }

        var number: Int { count.withLock { $0 } }
    }

    @Test func `the end is told once, and loops let go of the port`() {
        weak var weakPort: NSMachPort?
        do {
            let port = NSMachPort()
            weakPort = port
            let observer = Observer(port)
            RunLoop.current.add(port, forMode: .default)
            RunLoop.current.add(port, forMode: .common)
            port.invalidate()
            #expect(!port.isValid)
            port.invalidate()
            #expect(observer.number == 1)
            #expect(!port.send(1))
            // Nothing happens to a port that is invalid.
            RunLoop.current.remove(port, forMode: .default)
            port.schedule(in: .current, forMode: .default)
            #expect(!RunLoop.current.run(mode: .default, before: .patience))
        }
        #expect(weakPort == nil)
    }

    @Test(arguments: [true, false])
    func `a port that nobody keeps ends, and its senders learn that`(_ isScheduled: Bool) throws {
        weak var weakPort: NSMachPort?
        weak var weakOwn: MachPort?
        let right: MachPort.SendRight
        let observer: Observer
        do {
            let own = try MachPort()
            let port = NSMachPort(own)
            (weakPort, weakOwn, right) = (port, own, own.sendRight)
            observer = Observer(port)
            if isScheduled {
                RunLoop.current.add(port, forMode: .default)
                RunLoop.current.remove(port, forMode: .default)
            }
            #expect(right.isValid)
        }
        #expect(weakPort == nil)
        #expect(weakOwn == nil)
        #expect(observer.number == 1)
        #expect(!right.isValid)
    }

    @Test func `a loop keeps its ports`() throws {
        weak var weakPort: NSMachPort?
        let right: MachPort.SendRight
        do {
            let port = NSMachPort()
            weakPort = port
            right = try #require(port.sendRight)
            RunLoop.current.add(port, forMode: .default)
        }
        #expect(weakPort != nil)
        #expect(right.isValid)
        weakPort?.invalidate()
        #expect(weakPort == nil)
        #expect(!right.isValid)
    }

    @Test func `a handler ends its port, and gets no further message`() {
        let port = NSMachPort()
        let observer = Observer(port)
        var count = 0
        let receiver = Receiver { message in
            count += 1
            message.receivePort?.invalidate()
            #expect(!port.isValid)
            #expect(observer.number == 1)
        }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        #expect(port.send(1))
        #expect(port.send(2))
        #expect(RunLoop.current.run(mode: .default, before: .patience))
        #expect(observer.number == 1)
        #expect(!RunLoop.current.run(mode: .default, before: .patience))
        #expect(count == 1)
    }

    @Test func `another thread ends the port while its loop sleeps, and the loop goes on`() {
        let (port, other) = (NSMachPort(), NSMachPort())
        var count = 0
        let receiver = Receiver { _ in count += 1 }
        other.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        RunLoop.current.add(other, forMode: .default)
        let thread = Helper { () -> Bool in
            port.invalidate()
            return other.send(1)
        }
        runLoop { count == 1 }
        #expect(thread.value() == true)
        #expect(!port.isValid)
        other.invalidate()
        #expect(!RunLoop.current.run(mode: .default, before: .patience))
    }

    @Test func `the end of a port's owner is told to the ports that send to it`() throws {
        let folder = TemporaryFolder()
        let names = MessagePortNameServer(PortNameServer(directory: folder.path))
        var peer: PortRuntime? = PortRuntime(directory: folder.path)
        var far: MachPort? = try MachPort(nameServer: try #require(peer?.nameServer))
        try peer?.nameServer.register(try #require(far), name: "far")
        let port = try #require(names.port(forName: "far"))
        #expect(port.isValid)
        #expect(port.send(1))
        let observer = Observer(port)
        (far, peer) = (nil, nil)
        waitUntil { observer.number > 0 }
        #expect(observer.number == 1)
        #expect(!port.isValid)
        #expect(!port.send(1))
        withExtendedLifetime(far) {}
    }

    @Test func `a port that can only send does not end the port that it names`() throws {
        let far = try MachPort()
        let port = NSMachPort(far.sendRight)
        let observer = Observer(port)
        port.invalidate()
        #expect(observer.number == 1)
        #expect(!port.isValid)
        #expect(!port.send(1))
        #expect(far.isValid)
        let next = NSMachPort(far.sendRight)
        #expect(next !== port)
        #expect(next.isValid)
        #expect(next.send(1))
    }
}
