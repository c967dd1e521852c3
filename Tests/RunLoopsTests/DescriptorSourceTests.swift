import Glibc
import Oracle
import OwnThread
import RunLoops
import Testing

@Suite(.ownThread) struct DescriptorSourceTests {
    @Test func `a handler is told as long as there is something to read`() {
        let trace = onThread {
            let (loop, pipe, trace) = (ThreadRunLoop.current, Pipe(), Trace())
            add(.descriptor(pipe.reader) { trace("\($0 == .readable) \(pipe.read())") }, to: loop)
            pipe.write(2)
            for _ in 0..<3 { trace("\(run(loop, seconds: 0, returning: true))") }
            return trace.all
        }
        #expect(trace == ["true 1", "handledSource", "true 1", "handledSource", "timedOut"])
    }

    @Test func `a hang-up with bytes left is told until they are read, and then once`() {
        let trace = onThread {
            let (loop, pipe, trace) = (ThreadRunLoop.current, Pipe(), Trace())
            loop.add(ThreadRunLoop.Source0 {})
            let source = ThreadRunLoop.Source1.descriptor(pipe.reader) {
                trace("\($0.contains(.hangUp)) \(pipe.read())")
            }
            add(source, to: loop)
            pipe.write(2)
            pipe.closeWriter()
            for _ in 0..<4 { trace("\(run(loop, seconds: 0, returning: true)) \(loop.contains(source))") }
            return trace.all
        }
        let once = ["true 1", "handledSource true", "true 1", "handledSource false"]
        #expect(trace == once + ["timedOut false", "timedOut false"])
    }

    @Test func `a hang-up that nobody reads is told once`() {
        let (calls, result) = onThread {
            let (loop, pipe, calls) = (ThreadRunLoop.current, Pipe(), Shared(0))
            add(.descriptor(pipe.reader) { _ in calls.withLock { $0 += 1 } }, to: loop)
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
            let source = ThreadRunLoop.Source1.descriptor(socket.descriptor) { readiness in
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
            let source = ThreadRunLoop.Source1.descriptor(pipe.reader) { _ in calls.withLock { $0 += 1 } }
            add(source, to: loop)
            loop.add(ThreadRunLoop.Source0 {})
            loop.add(ThreadRunLoop.Observer(.beforeTimers) { _, _ in passes.withLock { $0 += 1 } })
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
            let source = ThreadRunLoop.Source1.descriptor(pipe.reader) { _ in
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

    @Test func `a regular file cannot be waited for`() throws {
        let file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        let errors = onThread {
            [file, -1].map { descriptor -> RunLoopError? in
                do throws(RunLoopError) {
                    try ThreadRunLoop.current.add(.descriptor(descriptor) { _ in })
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
            // What the run itself needs is made by now.
            loop.add(ThreadRunLoop.Source0 {})
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
                let source = ThreadRunLoop.Source1.descriptor(pipe.reader) { _ in }
                add(source, to: loop)
                add(source, to: loop, "other")
                source.invalidate()
            }
            return (before, copies())
        }
        #expect(before == after)
    }
}

private final class UDPSocket: Sendable {
    let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)

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
