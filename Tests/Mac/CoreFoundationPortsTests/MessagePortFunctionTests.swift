@preconcurrency import CoreFoundation
import CoreFoundationPorts
import Dispatch
import OwnThread
import Ports
import RunLoops
import Synchronization
import TestSupport
import Testing

/// The functions of CFMessagePort as a Swift program calls them. The C program has the rest.
@Suite(.ownThread) struct MessagePortFunctionTests {
    /// The functions know one registry directory, which other tests use at the same time.
    private let text = "CFMessagePort.\(UInt64.random(in: 0 ... .max))"
    private var name: CFString { CFStringCreateWithCString(nil, text, CFStringBuiltInEncodings.UTF8.rawValue) }

    private static let echo: CFMessagePortCallBack = { _, _, data, _ in data.map { .passRetained($0) } }

    /// A port that a thread of its own serves until the port is invalid.
    private final class Server: @unchecked Sendable {
        let port: CFMessagePort
        private let thread: Helper<Void>
        private let loop = Shared<CFRunLoop?>(nil)

        init(_ name: CFString, info: UnsafeMutableRawPointer? = nil, _ callBack: @escaping CFMessagePortCallBack) throws
        {
            var context = CFMessagePortContext()
            context.info = info
            let port = try #require(CFMessagePortCreateLocal(nil, name, callBack, &context, nil))
            self.port = port
            thread = Helper { [loop] in
                loop.withLock { $0 = CFRunLoopGetCurrent() }
                // Nil when the port has ended already.
                guard let source = CFMessagePortCreateRunLoopSource(nil, port, 0) else { return }
                CFRunLoopAddSource(CFRunLoopGetCurrent(), source, .defaultMode)
                while CFMessagePortIsValid(port) { CFRunLoopRunInMode(.defaultMode, 1e10, true) }
            }
        }

        func end() {
            invalidate()
            thread.join()
        }

        /// As on macOS, an invalidation on another thread does not wake a loop that has nothing else in its mode.
        private func invalidate() {
            CFMessagePortInvalidate(port)
            if let loop = loop.withLock({ $0 }) { CFRunLoopWakeUp(loop) }
        }

        deinit { invalidate() }
    }

    @Test func `messages to a port without a source wait, and then their senders`() throws {
        var context = CFMessagePortContext()
        let handled = Shared(0)
        context.info = Unmanaged.passUnretained(handled).toOpaque()
        let port = try #require(
            CFMessagePortCreateLocal(
                nil, name,
                { _, _, _, info in
                    guard let info else { return nil }
                    Unmanaged<Shared<Int>>.fromOpaque(info).takeUnretainedValue().withLock { $0 += 1 }
                    return nil
                }, &context, nil))
        let remote = try #require(CFMessagePortCreateRemote(nil, name))
        func send() -> Int32 { CFMessagePortSendRequest(remote, 1, nil, 0.1, 0, nil, nil) }
        let all = 1000
        for _ in 0..<all { #expect(send() == Int32(kCFMessagePortSuccess)) }
        #expect(send() == Int32(kCFMessagePortSendTimeout))
        let source = CFMessagePortCreateRunLoopSource(nil, port, 0)
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source, .defaultMode)
        let deadline = ContinuousClock.Instant.patience
        while handled.withLock({ $0 }) < all, .now < deadline { CFRunLoopRunInMode(.defaultMode, 1, true) }
        #expect(handled.withLock { $0 } == all)
        #expect(send() == Int32(kCFMessagePortSuccess))
        CFMessagePortInvalidate(port)
    }

    private func ask(
        _ port: CFMessagePort, _ bytes: [UInt8], timeout: Double = 30
    ) -> (result: Int32, reply: [UInt8]?) {
        var reply: Unmanaged<CFData>?
        let data = CFDataCreate(nil, bytes, bytes.count)
        let result = CFMessagePortSendRequest(port, 1, data, timeout, timeout, .defaultMode, &reply)
        guard let reply = reply?.takeRetainedValue() else { return (result, nil) }
        return (result, Array(UnsafeBufferPointer(start: CFDataGetBytePtr(reply), count: CFDataGetLength(reply))))
    }

    @Test func `a port of CoreFoundation and the Swift API talk`() throws {
        let server = try Server(name, Self.echo)
        let remote = try RemoteMessagePort(name: text, before: .patience)
        #expect(try remote.request(id: 1, [1, 2]) == [1, 2])
        #expect(try remote.request(id: 1, nil) == [])
        server.end()
        #expect(throws: (any Error).self) { try remote.request(id: 1, [1]) }

        let thread = try RunLoopThread()
        let port = try LocalMessagePort(
            name: text,
            requestHandler: { request in
                // Without a reply when there is no data.
                if let data = request.data { try? request.replyRight?.reply(with: data + [0]) }
            })
        try port.schedule(in: thread.loop)
        let found = try #require(CFMessagePortCreateRemote(nil, name))
        #expect(ask(found, [7]) == (kCFMessagePortSuccess, [7, 0]))
        #expect(
            CFMessagePortSendRequest(found, 1, nil, 30, 30, .defaultMode, nil) == kCFMessagePortTransportError)
        #expect(CFMessagePortIsValid(found))
        port.invalidate()
        #expect(!CFMessagePortIsValid(found))
        thread.stop()
    }

    private final class Gate: Sendable {
        let (isCalled, mayReturn, isInvalid) = (Latch(), Latch(), Latch())
    }

    @Test func `an invalidation does not wait for a callout on another thread`() throws {
        let gate = Gate()
        let server = try Server(name, info: Unmanaged.passUnretained(gate).toOpaque()) { _, _, data, info in
            guard let info else { return nil }
            let gate = Unmanaged<Gate>.fromOpaque(info).takeUnretainedValue()
            gate.isCalled.open()
            _ = gate.mayReturn.wait(until: .patience)
            return data.map { .passRetained($0) }
        }
        CFMessagePortSetInvalidationCallBack(server.port) { _, info in
            if let info { Unmanaged<Gate>.fromOpaque(info).takeUnretainedValue().isInvalid.open() }
        }
        let remote = try #require(CFMessagePortCreateRemote(nil, name))
        let asker = Helper { ask(remote, [5]).result }
        #expect(gate.isCalled.wait(until: .patience))
        CFMessagePortInvalidate(server.port)
        #expect(gate.isInvalid.wait(until: .distantPast))
        // The name is free.
        let next = try Server(name, Self.echo)
        #expect(next.port !== server.port)
        next.end()
        gate.mayReturn.open()
        let result = try #require(asker.value())
        #expect(result == kCFMessagePortBecameInvalidError || result == kCFMessagePortSuccess)
        server.end()
    }

    @Test func `threads that make and release one name get one port or the next`() {
        let threads = (0..<4).map { _ in
            Helper {
                var made = 0
                for _ in 0..<200 {
                    if let port = CFMessagePortCreateLocal(nil, name, Self.echo, nil, nil),
                        CFMessagePortIsRemote(port) == false
                    {
                        made += 1
                    }
                }
                return made
            }
        }
        for thread in threads { #expect(thread.value() == 200) }
        #expect(CFMessagePortCreateRemote(nil, name) == nil)
    }

    @Test func `nothing is left of ports that were released`() throws {
        weak var kept: CFMessagePort?
        let loop = CFRunLoopGetCurrent()
        for isInvalidated in [true, false, true, false] {
            let made = try #require(CFMessagePortCreateLocal(nil, name, Self.echo, nil, nil))
            let remote = try #require(CFMessagePortCreateRemote(nil, name))
            let source = CFMessagePortCreateRunLoopSource(nil, made, 0)
            CFRunLoopAddSource(loop, source, .defaultMode)
            #expect(ask(remote, [1]) == (kCFMessagePortSuccess, [1]))
            CFRunLoopRemoveSource(loop, source, .defaultMode)
            if isInvalidated { CFMessagePortInvalidate(made) }
            kept = made
        }
        #expect(kept == nil)
        #expect(LocalMessagePort.existing(text) == nil)
        #expect(CFMessagePortCreateRemote(nil, name) == nil)
    }

    @Test func `a dispatch queue of Swift calls the callback`() throws {
        let port = try #require(CFMessagePortCreateLocal(nil, name, Self.echo, nil, nil))
        CFMessagePortSetDispatchQueue(port, DispatchQueue(label: "CFMessagePort"))
        let remote = try #require(CFMessagePortCreateRemote(nil, name))
        #expect(ask(remote, [3]) == (kCFMessagePortSuccess, [3]))
        CFMessagePortSetDispatchQueue(port, nil)
        #expect(ask(remote, [3], timeout: 0.05).result == kCFMessagePortReceiveTimeout)
        #expect(CFMessagePortCreateRunLoopSource(nil, port, 0) != nil)
    }
}
