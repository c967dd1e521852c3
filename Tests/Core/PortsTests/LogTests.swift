import CRunLoopShims
import Foundation
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import FuzzTargets
@testable import Ports

/// What the library says in the log of a process that others do harm to.
@Suite(.ownThread) struct LogTests {
    var sandbox = Sandbox()

    /// A pipe that holds a few lines, in the place of a process's standard error.
    private final class Pipe {
        let path: String
        private(set) var reader: Int32

        init(_ sandbox: Sandbox) {
            path = sandbox.file("stderr")
            #expect(mkfifo(path, 0o600) == 0)
            reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
            #expect(fcntl(reader, 1031, 4096) == 4096)
        }

        func close() {
            if reader >= 0 { Glibc.close(reader) }
            reader = -1
        }

        deinit {
            close()
            unlink(path)
        }
    }

    /// Calls the process with hellos of many versions, each of which is worth a line.
    private func annoy(_ target: Target, _ versions: ClosedRange<UInt8>) throws {
        var buffer = [UInt8](repeating: 0, count: 64)
        for version in versions {
            let caller = try LocalSocket.make(.sequencedPackets)
            defer { close(caller) }
            try #require(waitUntil { LocalSocket.connect(caller, to: target.controlPath) == 0 })
            let hello = Samples.hello(version: version)
            #expect(Glibc.send(caller, hello, hello.count, Int32(MSG_NOSIGNAL)) == hello.count)
            try #require(crl_poll(caller, -1, MonotonicInstant.patience.timeout) > 0, "version \(version)")
            #expect(recv(caller, &buffer, buffer.count, 0) == ControlHello.size)
        }
    }

    /// Frames of many versions.
    private func spoil(_ target: Target, _ versions: ClosedRange<UInt8>) throws {
        for version in versions {
            var frame = Samples.frame()
            frame[1] = version
            let stream = try RawStream(to: target.path, saying: RawStream.announced(UInt64(frame.count)) + frame)
            withExtendedLifetime(stream) {}
        }
        let count = versions.count
        #expect(try waitUntil { try target.seen().malformed == count })
    }

    @Test func `a log that nobody reads holds up nobody`() throws {
        let pipe = Pipe(sandbox)
        let target = try Target(sandbox, log: pipe.path)
        try annoy(target, 4...202)
        _ = try target.right.ping(before: .patience)
        try spoil(target, 2...50)
        _ = try target.right.ping(before: .patience)
        // Nor the exit.
        try target.exit()
        #expect(target.child.wait() == 0)
        withExtendedLifetime(pipe) {}
    }

    @Test func `a process whose log is closed goes on`() throws {
        let pipe = Pipe(sandbox)
        let target = try Target(sandbox, log: pipe.path)
        pipe.close()
        try annoy(target, 4...12)
        try spoil(target, 2...10)
        _ = try target.right.ping(before: .patience)
        #expect(try target.seen().handled == 0)
    }

    @Test func `no line goes into a file that has got the number of the closed standard error`() {
        let (first, second) = (sandbox.file("first.log"), sandbox.file("second.log"))
        let child = Child(
            "replace-standard-error", second, in: sandbox, wrapper: ["/bin/sh", "-c", "exec \"$0\" \"$@\" 2>\(first)"])
        #expect(child.wait() == 0)
        #expect(Target.lines(of: first).map { $0.suffix(5) } == ["first"])
        #expect(Target.lines(of: second).map { $0.suffix(6) } == ["second"])
    }

    @Test func `a standard error may be a file, a terminal or a pipe, and a socket only from the beginning`() throws {
        func open(_ path: String) -> Int32 { Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600) }
        let pipe = Pipe(sandbox)
        let event = try EventDescriptor()
        let (socket, other) = (try LocalSocket.make(.stream), try LocalSocket.make(.stream))
        let (null, file, end) = (open("/dev/null"), open(sandbox.file("log")), open(pipe.path))
        let number = dup(socket)
        defer { for descriptor in [socket, other, null, file, end, number] { close(descriptor) } }
        let standard = StandardError(number)
        #expect(standard.isInPlace)
        for (place, isLog) in [
            (null, true), (file, true), (end, true), (other, false), (event.descriptor, false), (socket, true),
        ] {
            #expect(dup2(place, number) == number)
            #expect(standard.isInPlace == isLog)
        }
        #expect(dup2(file, number) == number)
        #expect(fcntl(number, F_SETFD, FD_CLOEXEC) == 0)
        #expect(!standard.isInPlace)
    }

    @Test(.disabled(if: isThreadSanitized, "the sanitizer itself writes a large file at its start"))
    func `a process whose log may not grow any more goes on`() throws {
        let target = try Target(sandbox, setUp: "ulimit -f 1")
        try annoy(target, 4...12)
        try spoil(target, 2...10)
        // A limit is a number of blocks of 512 bytes.
        #expect(waitUntil { (try? FileManager.default.attributesOfItem(atPath: target.logFile)[.size] as? Int) == 512 })
        _ = try target.right.ping(before: .patience)
        #expect(try target.seen().handled == 0)
    }

    @Test func `after a minute there are lines again, and what was said once is not said again`() {
        var limit = LogRateLimit()
        let began = MonotonicInstant.now
        func omitted() -> Int { limit.takeOmitted() }
        func says(_ pid: pid_t, once kind: String? = nil, after time: Duration) -> Bool {
            limit.admits(.process(pid), once: kind, at: began + time)
        }
        #expect(says(1, once: "bad", after: .zero))
        #expect(!says(1, once: "bad", after: .zero))
        #expect(says(2, once: "bad", after: .zero))
        #expect(omitted() == 0)
        let counts = (0..<100).map { pid in
            (0..<20).count { _ in says(pid, after: .seconds(59)) }
        }
        #expect(counts.reduce(2, +) == LogRateLimit.most)
        #expect(counts.max() == LogRateLimit.mostAboutOne)
        #expect(omitted() == 2002 - LogRateLimit.most)
        #expect(says(99, after: .seconds(61)))
        #expect(!says(1, once: "bad", after: .seconds(61)))
        #expect(omitted() == 0)
    }

    @Test func `lines about peers take no room from those about the process itself, nor the other way round`() {
        var limit = LogRateLimit()
        let now = MonotonicInstant.now
        func count(_ subject: LogRateLimit.Subject) -> Int {
            (0..<20).count { _ in limit.admits(subject, once: nil, at: now) }
        }
        #expect(count(.own) == LogRateLimit.mostAboutOne)
        #expect((0..<100).reduce(0) { $0 + count(.process($1)) } == LogRateLimit.most)
        #expect(count(.own) == 0)
        limit = LogRateLimit()
        #expect((0..<100).reduce(0) { $0 + count(.process($1)) } == LogRateLimit.most)
        #expect(count(.own) == LogRateLimit.mostAboutOne)
    }

    @Test func `what was said of more peers than are remembered is said again`() {
        var limit = LogRateLimit()
        var now = MonotonicInstant.now
        func says(_ pid: pid_t) -> Bool {
            now = now + LogRateLimit.period
            return limit.admits(.process(pid), once: "bad", at: now)
        }
        #expect(says(1))
        #expect(!says(1))
        for pid in 2...1025 as ClosedRange<pid_t> { #expect(says(pid)) }
        #expect(says(1))
    }

    @Test func `one peer causes a few lines, and the last says how many were left out`() throws {
        let target = try Target(sandbox)
        try annoy(target, 4...202)
        #expect(waitUntil { target.log.count == LogRateLimit.mostAboutOne })
        try spoil(target, 2...50)
        #expect(target.log.count == LogRateLimit.mostAboutOne)
        try target.exit()
        #expect(target.child.wait() == 0)
        #expect(target.log.count == LogRateLimit.mostAboutOne + 1)
        #expect(target.hasLogged("\(199 + 49 - LogRateLimit.mostAboutOne) more"))
    }

    @Test(arguments: ["info", "debug"])
    func `hundreds of askers that are gone are told of at the level debug alone`(_ level: String) throws {
        let log = sandbox.path + ".log"
        defer { unlink(log) }
        let desk = try Desk(sandbox)
        let server = Child(
            "echo", in: sandbox,
            wrapper: ["/bin/sh", "-c", "export PORTS_LOG_LEVEL=\(level); exec \"$0\" \"$@\" 2>\(log)"])
        let right = try desk.report()
        for number in 0..<400 as Range<UInt32> {
            let asker = WireRight(
                id: PortID(incarnation: .random(), number: 1), queueLimit: 1, limit: 1000, path: sandbox.path)
            let reply = MachPort.SendRight(PortRuntime.shared.channels.channel(to: asker))
            var message = try MessageEncoding.outgoing(
                MachPort.Message(id: 1, replyPort: reply), kind: .request, request: UInt64(number), to: right.channel)
            try right.channel.send(&message, before: .patience)
        }
        #expect(try RemoteMessagePort(right).request(id: 1, [7]) == [7])
        var count: Int { Target.lines(of: log).count { $0.contains("nobody waits for the reply to ") } }
        if level == "debug" { #expect(waitUntil { count == 400 }) }
        #expect(throws: PortError.self) { try RemoteMessagePort(right).request(id: 99) }
        #expect(server.wait() == 0)
        if level == "info" { #expect(Target.lines(of: log) == []) }
    }
}
