import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct DescriptorSourceTests {
    @Test func `a handler is told as long as there is something to read`() {
        let trace = onThread {
            let (loop, pipe, trace) = (ThreadRunLoop.current, Pipe(), Trace())
            add(
                .descriptor(pipe.reader) { _, readiness in trace("\(readiness == .readable) \(pipe.read())") }, to: loop
            )
            pipe.write(2)
            for _ in 0..<3 { trace("\(run(loop, seconds: 0, returning: true))") }
            return trace.all
        }
        #expect(trace == ["true 1", "handledSource", "true 1", "handledSource", "timedOut"])
    }

    @Test func `a hang-up with bytes left is told until they are read, and then once`() {
        let trace = onThread {
            let (loop, pipe, trace) = (ThreadRunLoop.current, Pipe(), Trace())
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let source = ThreadRunLoop.Source1.descriptor(pipe.reader) { _, readiness in
                trace("\(readiness.contains(.hangUp)) \(pipe.read())")
            }
            add(source, to: loop)
            pipe.write(2)
            pipe.closeWriter()
            for _ in 0..<4 { trace("\(run(loop, seconds: 0, returning: true)) \(loop.contains(source))") }
            return trace.all
        }
        let once = ["true 1", "handledSource true", "true 1", "handledSource true", "true 0", "handledSource false"]
        #expect(trace == once + ["timedOut false"])
    }

    @Test func `a hang-up that nobody reads is told once`() {
        let (calls, result) = onThread {
            let (loop, pipe, calls) = (ThreadRunLoop.current, Pipe(), Shared(0))
            add(.descriptor(pipe.reader) { _, _ in calls.withLock { $0 += 1 } }, to: loop)
            pipe.closeWriter()
            let result = run(loop, seconds: 20)
            return (calls.withLock { $0 }, result)
        }
        #expect(calls == 1)
        #expect(result == .finished)
    }

    @Test func `an error that the handler has taken away leaves the source where it is`() throws {
        let (calls, isThere) = onThread {
            let (loop, calls) = (ThreadRunLoop.current, Shared(0))
            // A datagram to a port that nobody has: the refusal is an error, told by the next read.
            let nobody = UDPSocket()
            let address = nobody.address
            nobody.close()
            let socket = UDPSocket()
            socket.connect(to: address)
            socket.send()
            let source = ThreadRunLoop.Source1.descriptor(socket.descriptor) { _, readiness in
                if readiness.contains(.error) { calls.withLock { $0 += 1 } }
                socket.receive()
            }
            add(source, to: loop)
            run(loop, seconds: 20, returning: true)
            defer { socket.close() }
            return (calls.withLock { $0 }, loop.contains(source))
        }
        #expect(calls == 1)
        #expect(isThere)
    }

    @Test func `closing the original behind the loop's back neither spins nor reaches a stranger`() {
        let (passes, calls) = onThread {
            let (loop, pipe, passes, calls) = (ThreadRunLoop.current, Pipe(), Shared(0), Shared(0))
            let source = ThreadRunLoop.Source1.descriptor(pipe.reader) { _, _ in calls.withLock { $0 += 1 } }
            add(source, to: loop)
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.add(ThreadRunLoop.Observer(.beforeTimers) { _, _ in passes.withLock { $0 += 1 } })
            pipe.closeReader()
            let stranger = Pipe()
            stranger.write()
            run(loop, seconds: 0.02)
            source.invalidate()
            run(loop, seconds: 0)
            return (passes.withLock { $0 }, calls.withLock { $0 })
        }
        #expect(passes <= 4)
        #expect(calls == 0)
    }

    @Test func `a source taken out and put back in its own callout is not taken for hung up by its old number`() {
        let isThere = onThread {
            let (loop, pipe) = (ThreadRunLoop.current, Pipe())
            let sources = Shared<[ThreadRunLoop.Source1]>([])
            let source = ThreadRunLoop.Source1.descriptor(pipe.reader) { _, _ in
                for source in sources.withLock({ $0 }) {
                    loop.remove(source)
                    add(source, to: loop)
                }
                sources.withLock { $0 = [] }
            }
            sources.withLock { $0 = [source] }
            add(source, to: loop)
            pipe.closeWriter()
            run(loop, seconds: 0, returning: true)
            return loop.contains(source)
        }
        #expect(isThere)
    }

    @Test(arguments: [false, true])
    func `a handler that closes its descriptor at the end is called once, and the peer sees it`(_ hasBytesLeft: Bool) {
        let (calls, seesTheEnd, result) = onThread {
            let (loop, pair, calls) = (ThreadRunLoop.current, SocketPair(), Shared(0))
            let source = ThreadRunLoop.Source1.descriptor(pair.mine) { _, _ in
                calls.withLock { $0 += 1 }
                if !hasBytesLeft || pair.read(pair.mine) == 0 { close(pair.mine) }
            }
            add(source, to: loop)
            if hasBytesLeft { pair.write(2, to: pair.theirs) }
            shutdown(pair.theirs, Int32(SHUT_WR))
            let result = run(loop, seconds: 20)
            // A process that another test has just forked may have a copy.
            return (calls.withLock { $0 }, waitUntil { pair.read(pair.theirs) == 0 }, result)
        }
        #expect(calls == (hasBytesLeft ? 3 : 1))
        #expect(seesTheEnd)
        #expect(result == .finished)
    }

    @Test func `a peer that sends no more is told once`() {
        let (told, isValid, result) = onThread {
            let (loop, pair) = (ThreadRunLoop.current, SocketPair())
            let told = Shared<[ThreadRunLoop.Readiness]>([])
            let source = ThreadRunLoop.Source1.descriptor(pair.mine) { _, readiness in
                told.withLock { $0.append(readiness) }
            }
            add(source, to: loop)
            add(source, to: loop, "other")
            shutdown(pair.theirs, Int32(SHUT_WR))
            let result = run(loop, seconds: 20)
            return (told.withLock { $0 }, source.isValid, result)
        }
        #expect(told == [[.readable, .readHangUp]])
        #expect(!isValid)
        #expect(result == .finished)
    }

    @Test func `after its peer sends no more a source goes on waiting for room to write`() {
        let (told, isValid) = onThread {
            let (loop, pair) = (ThreadRunLoop.current, SocketPair())
            pair.fill(pair.mine)
            let told = Shared<[ThreadRunLoop.Readiness]>([])
            let source = ThreadRunLoop.Source1.descriptor(pair.mine, [.readable, .writable]) { _, readiness in
                told.withLock { $0.append(readiness) }
            }
            add(source, to: loop)
            shutdown(pair.theirs, Int32(SHUT_WR))
            run(loop, seconds: 0.02)
            pair.drain(pair.theirs)
            run(loop, seconds: 20, returning: true)
            return (told.withLock { $0 }, source.isValid)
        }
        #expect(told == [[.readable, .readHangUp], .writable])
        #expect(isValid)
    }

    @Test func `those who only write are told of a hang-up once, whatever is left to read`() {
        let (calls, result) = onThread {
            let (loop, pair, calls) = (ThreadRunLoop.current, SocketPair(), Shared(0))
            pair.fill(pair.mine)
            add(.descriptor(pair.mine, .writable) { _, _ in calls.withLock { $0 += 1 } }, to: loop)
            pair.write(1, to: pair.theirs)
            close(pair.theirs)
            return (calls, run(loop, seconds: 20))
        }
        #expect(calls.withLock { $0 } == 1)
        #expect(result == .finished)
    }

    @Test func `a terminal's hang-up is told once`() {
        let (calls, result) = onThread {
            let (loop, calls, pipe) = (ThreadRunLoop.current, Shared(0), Terminal())
            add(.descriptor(pipe.controller) { _, _ in calls.withLock { $0 += 1 } }, to: loop)
            pipe.hangUp()
            return (calls, run(loop, seconds: 20))
        }
        #expect(calls.withLock { $0 } == 1)
        #expect(result == .finished)
    }

    @Test func `a handler is not called for the file that has got a closed descriptor's number`() {
        let (calls, isValid, result) = onThread {
            let (loop, pair, calls) = (ThreadRunLoop.current, SocketPair(), Shared(0))
            let source = ThreadRunLoop.Source1.descriptor(pair.mine) { _, _ in calls.withLock { $0 += 1 } }
            add(source, to: loop)
            let stranger = Pipe()
            #expect(dup2(stranger.reader, pair.mine) == pair.mine)
            pair.write(1, to: pair.theirs)
            return (calls, source.isValid, run(loop, seconds: 20))
        }
        #expect(calls.withLock { $0 } == 0)
        #expect(isValid)
        #expect(result == .finished)
    }

    @Test(arguments: [false, true])
    func `a source that owns its descriptor closes it at its end`(_ isInvalidated: Bool) {
        let isClosed = onThread {
            let (loop, pair) = (ThreadRunLoop.current, SocketPair())
            let source = ThreadRunLoop.Source1.descriptor(pair.mine, closesOnInvalidation: true) { source, _ in
                if isInvalidated, pair.read(pair.mine) == 1 { source.invalidate() }
                // Open as long as the handler may use it.
                #expect(fcntl(pair.mine, F_GETFD) >= 0)
            }
            add(source, to: loop)
            add(source, to: loop, "other")
            if isInvalidated { pair.write(1, to: pair.theirs) } else { shutdown(pair.theirs, Int32(SHUT_WR)) }
            run(loop, seconds: 20)
            return withExtendedLifetime(source) { pair.read(pair.theirs) == 0 }
        }
        #expect(isClosed)
    }

    @Test func `a source that owns its descriptor keeps it while the handler runs, and closes it when let go of`()
        throws
    {
        let (pair, isCalled, mayReturn) = (SocketPair(), Latch(), Latch())
        let thread = try RunLoopThread()
        var source: ThreadRunLoop.Source1? = .descriptor(pair.mine, closesOnInvalidation: true) { _, _ in
            isCalled.open()
            #expect(mayReturn.wait(until: .patience))
            #expect(fcntl(pair.mine, F_GETFD) >= 0)
        }
        if let source { try thread.loop.add(source) }
        pair.write(1, to: pair.theirs)
        #expect(isCalled.wait(until: .patience))
        source?.invalidate()
        #expect(pair.read(pair.theirs) == -1)
        mayReturn.open()
        waitUntil { pair.read(pair.theirs) == 0 }
        #expect(pair.read(pair.theirs) == 0)

        let other = SocketPair()
        source = .descriptor(other.mine, closesOnInvalidation: true) { _, _ in }
        source = nil
        #expect(other.read(other.theirs) == 0)
    }

    @Test func `a source that owns its descriptor does not close a stranger's`() {
        let (pair, stranger) = (SocketPair(), Pipe())
        var source: ThreadRunLoop.Source1? = .descriptor(pair.mine, closesOnInvalidation: true) { _, _ in }
        #expect(dup2(stranger.reader, pair.mine) == pair.mine)
        source?.invalidate()
        source = nil
        #expect(fcntl(pair.mine, F_GETFD) >= 0)
        close(pair.mine)
    }

    @Test func `a regular file cannot be waited for`() throws {
        let file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        let errors = onThread {
            [file, -1].map { descriptor -> RunLoopError? in
                do throws(RunLoopError) {
                    try ThreadRunLoop.current.add(.descriptor(descriptor) { _, _ in })
                    return nil
                } catch {
                    return error
                }
            }
        }
        #expect(errors == [.notPollable(file), .badDescriptor(-1)])
    }

    @Test(.enabled(if: !isThreadSanitized))
    func `without a descriptor left there are errors that name the limit, and nothing leaks`() {
        #expect(helper("descriptors") == 0)
    }

    @Test func `each source taken out gives its duplicate back`() {
        let (before, after) = onThread {
            let (loop, pipe) = (ThreadRunLoop.current, Pipe())
            // The run itself has what it needs by now.
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            run(loop, seconds: 0)
            func copies() -> Int {
                var mine = stat()
                fstat(pipe.reader, &mine)
                return (0..<1024).count { number in
                    var other = stat()
                    return fstat(Int32(number), &other) == 0
                        && (other.st_ino, other.st_dev) == (mine.st_ino, mine.st_dev)
                }
            }
            let before = copies()
            for _ in 0..<100 {
                let source = ThreadRunLoop.Source1.descriptor(pipe.reader) { _, _ in }
                add(source, to: loop)
                add(source, to: loop, "other")
                source.invalidate()
            }
            return (before, copies())
        }
        #expect(before == after)
    }
}

/// A pair of connected sockets that do not block. Each test closes them itself.
private struct SocketPair: Sendable {
    let mine: Int32
    let theirs: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        precondition(socketpair(AF_UNIX, kind, 0, &ends) == 0, "no sockets")
        (mine, theirs) = (ends[0], ends[1])
    }

    func read(_ end: Int32) -> Int {
        var byte: UInt8 = 0
        return Glibc.read(end, &byte, 1)
    }

    func write(_ count: Int, to end: Int32) { _ = Glibc.write(end, [UInt8](repeating: 7, count: count), count) }

    func fill(_ end: Int32) {
        let bytes = [UInt8](repeating: 7, count: 4096)
        while Glibc.write(end, bytes, bytes.count) > 0 {}
    }

    func drain(_ end: Int32) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        while Glibc.read(end, &bytes, bytes.count) > 0 {}
    }
}

/// A pseudo-terminal.
private struct Terminal: Sendable {
    let controller = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
    private let terminal: Int32

    init() {
        // TIOCSPTLCK and TIOCGPTPEER, which Swift does not import.
        var isLocked: Int32 = 0
        precondition(ioctl(controller, 0x4004_5431, &isLocked) == 0, "no terminal")
        terminal = ioctl(controller, 0x5441, O_RDWR | O_NOCTTY | O_CLOEXEC)
    }

    func hangUp() { close(terminal) }
}

private final class UDPSocket: Sendable {
    let descriptor = socket(
        AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)

    init() {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        precondition(withAddress(&address) { bind(descriptor, $0, $1) } == 0, "no port")
    }

    var address: sockaddr_in {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withAddress(&address) { pointer, _ in
            getsockname(descriptor, UnsafeMutablePointer(mutating: pointer), &length)
        }
        return address
    }

    func connect(to address: sockaddr_in) {
        var address = address
        _ = withAddress(&address) { Glibc.connect(descriptor, $0, $1) }
    }

    func send() { _ = Glibc.send(descriptor, "x", 1, 0) }

    func receive() {
        var byte: UInt8 = 0
        _ = recv(descriptor, &byte, 1, 0)
    }

    func close() { _ = Glibc.close(descriptor) }

    private func withAddress(
        _ address: inout sockaddr_in, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
