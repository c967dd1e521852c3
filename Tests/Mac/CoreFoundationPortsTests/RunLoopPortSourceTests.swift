import CoreFoundation
import OwnThread
import Ports
import Synchronization
import TestSupport
import Testing

@testable import CoreFoundationPorts

@Suite(.ownThread) struct RunLoopPortSourceTests {
    private let folder = TemporaryFolder()
    private var names: PortNameServer { PortNameServer(directory: folder.path) }

    private func runOnce(_ seconds: Double) -> CFRunLoopRunResult {
        CFRunLoopRunInMode(kCFRunLoopDefaultMode, seconds, true)
    }

    /// If CFRunLoop did something else with the descriptor of a source, this would be the first to show it.
    @Test(arguments: [1, 64])
    func `a CFRunLoop gets every message of threads and of another runtime`(_ limit: Int) throws {
        let each = 10_000
        let count = Atomic(0)
        let port = try MachPort(queueLimit: 50, nameServer: names) { _ in count.add(1, ordering: .relaxed) }
        try names.register(port, name: "source")
        let source = RunLoopPortSource(try PortDescriptor(port), atMost: limit)
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source.source, kCFRunLoopDefaultMode)
        let peer = PortRuntime(directory: folder.path)
        let far = try peer.nameServer.port(forName: "source", before: .patience)
        let senders = [port.sendRight, port.sendRight, far].map { right in
            Helper {
                do {
                    for _ in 0..<each { try right.send(MachPort.Message(bytes: [1])) }
                    return true
                } catch {
                    return false
                }
            }
        }
        while count.load(ordering: .relaxed) < 3 * each {
            #expect(runOnce(20) == .handledSource)
        }
        for sender in senders { #expect(sender.value() == true) }
        #expect(runOnce(0) == .timedOut)
        #expect(count.load(ordering: .relaxed) == 3 * each)
    }

    @Test func `a run that returns after a source handles one message`() throws {
        let count = Atomic(0)
        let port = try MachPort(nameServer: names) { _ in count.add(1, ordering: .relaxed) }
        let source = RunLoopPortSource(try PortDescriptor(port), atMost: 1)
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source.source, kCFRunLoopDefaultMode)
        for _ in 0..<3 { try port.sendRight.send(MachPort.Message()) }
        for handled in 1...3 {
            #expect(runOnce(5) == .handledSource)
            #expect(count.load(ordering: .relaxed) == handled)
        }
        #expect(runOnce(0) == .timedOut)
    }

    @Test func `the source ends with the port, and keeps it until then`() throws {
        weak var weakPort: MachPort?
        var source: RunLoopPortSource?
        do {
            let port = try MachPort(nameServer: names) { _ in }
            source = RunLoopPortSource(try PortDescriptor(port), atMost: 1)
            weakPort = port
        }
        let made = try #require(source)
        CFRunLoopAddSource(CFRunLoopGetCurrent(), made.source, kCFRunLoopDefaultMode)
        #expect(weakPort != nil)
        weakPort?.invalidate()
        #expect(!CFRunLoopSourceIsValid(made.source))
        #expect(runOnce(5) == .finished)
        source = nil
    }

    @Test func `a handler that removes the source gets no further message`() throws {
        let count = Atomic(0)
        let kept = Shared<RunLoopPortSource?>(nil)
        let port = try MachPort(nameServer: names) { _ in
            count.add(1, ordering: .relaxed)
            kept.withLock { $0 }?.remove(from: CFRunLoopGetCurrent(), forMode: kCFRunLoopDefaultMode)
        }
        let source = RunLoopPortSource(try PortDescriptor(port), atMost: 64)
        kept.withLock { $0 = source }
        let loop = CFRunLoopGetCurrent()
        CFRunLoopAddSource(loop, source.source, kCFRunLoopDefaultMode)
        for _ in 0..<3 { try port.sendRight.send(MachPort.Message()) }
        #expect(runOnce(5) == .handledSource)
        #expect(count.load(ordering: .relaxed) == 1)
        #expect(runOnce(5) == .finished)
        // What waits is handled when the source is back.
        for handled in 2...3 {
            CFRunLoopAddSource(loop, source.source, kCFRunLoopDefaultMode)
            #expect(runOnce(5) == .handledSource)
            #expect(count.load(ordering: .relaxed) == handled)
        }
        kept.withLock { $0 = nil }
    }
}
