import CoreFoundation
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

/// C programs as they are written for macOS.
@Suite(.ownThread) struct CProgramTests {
    private let registry = TemporaryFolder()
    private var names: PortNameServer { PortNameServer(directory: registry.path) }

    private func run(_ words: String...) -> Run { run(words) }

    private func run(
        _ words: [String], _ compiler: CProgram.Compiler = .clang, _ program: CProgram = .messagePorts,
        in registry: TemporaryFolder? = nil
    ) -> Run {
        // For the address sanitizer, which looks for leaks in these programs alone.
        let leaks = ["ASAN_OPTIONS": "detect_leaks=1", "LSAN_OPTIONS": "suppressions=\(CProgram.leaks)"]
        return Run(
            [program.path(compiler)] + words,
            environment: leaks.merging(["PORTS_DIRECTORY": (registry ?? self.registry).path]) { $1 })
    }

    private func status(_ words: String...) -> Int32? {
        let run = run(words)
        defer { withExtendedLifetime(run) {} }
        return run.child.wait()
    }

    private func ready(_ words: String...) -> Run {
        let run = run(words)
        #expect(waitUntil { run.output == Array("ready\n".utf8) })
        return run
    }

    @Test(arguments: CProgram.Compiler.c)
    func `the functions of CFMessagePort behave as documented`(_ compiler: CProgram.Compiler) {
        check(.messagePorts, compiler, atLeast: 20)
    }

    @Test(arguments: CProgram.Compiler.c)
    func `the functions of CFFileDescriptor behave as documented`(_ compiler: CProgram.Compiler) {
        check(.fileDescriptors, compiler, atLeast: 10)
    }

    @Test(arguments: CProgram.Compiler.c)
    func `the functions of CFMachPort behave as documented`(_ compiler: CProgram.Compiler) {
        check(.machPorts, compiler, atLeast: 10)
    }

    @Test(arguments: CProgram.Compiler.c)
    func `the functions of CFNotificationCenter behave as documented`(_ compiler: CProgram.Compiler) {
        check(.notifications, compiler, atLeast: 10)
    }

    private func check(_ program: CProgram, _ compiler: CProgram.Compiler, atLeast count: Int) {
        let behaviours = program.behaviours
        #expect(behaviours.count >= count)
        for behaviour in behaviours {
            let registry = TemporaryFolder()
            let run = run([behaviour], compiler, program, in: registry)
            #expect(run.child.wait() == 0, "\(behaviour): \(String(decoding: run.errors, as: UTF8.self))")
        }
    }

    @Test func `a C program answers requests of the Swift API`() throws {
        let server = ready("serve", "c.server")
        let remote = try RemoteMessagePort(name: "c.server", nameServer: names, before: .patience)
        #expect(try remote.request(id: 7, [1, 2]) == [1, 2, 7])
        #expect(try remote.request(id: 0, [1, 2]) == nil)
        // The callback gets empty data.
        #expect(try remote.request(id: 1, nil) == [1])
        try remote.send(id: 5, nil)
        #expect(try remote.request(id: 99, []) == [99])
        #expect(server.child.wait() == 0)
    }

    @Test func `the reply of a callback that invalidates its port arrives in another process`() throws {
        for _ in 0..<10 {
            let server = ready("end", "c.server")
            let asker = run("ask", "c.server")
            #expect(asker.child.wait() == 0)
            #expect(asker.output == Array("from C".utf8))
            #expect(server.child.wait() == 0)
        }
    }

    @Test func `a C program asks a port of the Swift API`() throws {
        let thread = try RunLoopThread()
        let port = try LocalMessagePort(name: "swift.server", nameServer: names) { id, data in
            Array("\(id): ".utf8) + (data ?? [])
        }
        try port.schedule(in: thread.loop)
        let asker = run("ask", "swift.server")
        #expect(asker.child.wait() == 0)
        #expect(asker.output == Array("33: from C".utf8))
        port.invalidate()
        #expect(status("ask", "swift.server") == 3)
        thread.stop()
    }

    @Test func `what a C program has sent arrives after its end`() throws {
        let thread = try RunLoopThread()
        let (ids, done) = (Shared<[UInt32]>([]), Latch())
        let port = try LocalMessagePort(name: "swift.server", nameServer: names) { id, _ in
            ids.withLock { $0.append(id) }
            if id == 500 { done.open() }
            return nil
        }
        try port.schedule(in: thread.loop)
        #expect(status("tell", "swift.server") == 0)
        #expect(done.wait(until: .patience))
        #expect(ids.withLock { $0 } == Array(1...500))
        port.invalidate()
        thread.stop()
    }

    @Test func `a name belongs to one process, and is free after its end`() {
        let server = ready("serve", "c.server")
        let second = run("serve", "c.server")
        #expect(second.child.wait() == 3)
        #expect(
            String(decoding: second.errors, as: UTF8.self).contains(
                "“c.server” belongs to \(CProgram.messagePorts.path(.clang).split(separator: "/").last ?? "") (pid \(server.child.pid))"
            ))
        let asker = run("ask", "c.server")
        #expect(asker.child.wait() == 0)
        #expect(asker.output == Array("from C!".utf8))
        server.child.kill()
        server.child.wait()
        #expect(status("ask", "c.server") == 3)
        _ = ready("serve", "c.server")
    }

    @Test(arguments: [true, false]) func `the end of a server is reported`(_ isKilled: Bool) throws {
        let server = ready("serve", "c.server")
        let watcher = ready("watch", "c.server")
        if isKilled {
            server.child.kill()
        } else {
            try RemoteMessagePort(name: "c.server", nameServer: names, before: .patience).send(id: 99)
        }
        #expect(watcher.child.wait() == 0)
        #expect(watcher.output == Array("ready\ninvalid\n".utf8))
    }
}
