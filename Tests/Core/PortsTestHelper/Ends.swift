import Glibc
import Ports
import RunLoops
import Synchronization
import TestSupport

/// Owns a name and four ports, keeps every request, and waits for its end. With "fork", a child of it lives on.
func beDoomed(forks: Bool) throws -> Never {
    let tester = try test()
    let kept = Mutex<[ReplyRight]>([])
    let server = try LocalMessagePort(name: "doomed") { request in
        guard let right = request.replyRight else { return }
        kept.withLock { $0.append(right) }
        try? tester.send(MachPort.Message(id: 3))
    }
    try server.schedule(in: .current)
    let others = try (0..<3).map { _ in try MachPort() }
    var components = others.map { MachPort.Message.Component.port($0.sendRight) }
    if forks {
        let survivor = fork()
        if survivor == 0 {
            alarm(60)
            while true { pause() }
        }
        components.append(.bytes(withUnsafeBytes(of: survivor) { Array($0) }))
    }
    try tester.send(MachPort.Message(id: 1, components, replyPort: server.sendRight))
    try runForEver()
}

/// Notices the end of every port that it is told of, and says when it was.
func noticeEnds() throws -> Never {
    alarm(600)
    let tester = try test()
    let rights = Mutex<[MachPort.SendRight]>([])
    let port = try MachPort { message in
        guard case .port(let right)? = message.components.first else { fail("no right") }
        rights.withLock { $0 = [right] }
        right.onInvalidation {
            let now = MonotonicInstant.now.nanoseconds
            let bytes = withUnsafeBytes(of: now) { Array($0) }
            try? tester.send(MachPort.Message(id: 5, [.bytes(bytes)]), before: .distantPast)
        }
        try? tester.send(MachPort.Message(id: 4))
    }
    try port.schedule(in: .current)
    try report(port.sendRight)
    try runForEver()
}

/// Takes names and gives them up, without end.
func churnNames() throws -> Never {
    let port = try MachPort()
    while true {
        for number in 0..<3 { try PortNameServer.shared.register(port, name: "churned \(number)") }
        for number in 0..<3 { try PortNameServer.shared.remove(port, name: "churned \(number)") }
    }
}

/// Serves on another thread than its first, which ends.
func serveHeadless() throws -> Never {
    let server = try LocalMessagePort(name: "headless") { _, data in data }
    let thread = try RunLoopThread()
    try server.schedule(in: thread.loop)
    try report(server.sendRight)
    withExtendedLifetime((server, thread)) { pthread_exit(nil) }
}

/// Runtimes that end in the middle of their work give all descriptors back.
func releaseRuntimes() throws -> Never {
    let directory = PortRuntime.shared.directory
    let server = try LocalMessagePort(name: "server") { _, data in data }
    let thread = try RunLoopThread()
    try server.schedule(in: thread.loop)
    func round() throws {
        var callers: [Int32] = []
        defer { for caller in callers { close(caller) } }
        try withExtendedLifetime(PortRuntime(directory: directory)) { runtime in
            let names = runtime.nameServer
            // The port for the replies is in this thread's loop.
            guard try RemoteMessagePort(name: "server", nameServer: names).request(id: 1, [1]) == [1] else {
                fail("reply")
            }
            let port = try MachPort(nameServer: names)
            try names.register(port, name: "mine")
            // Handshakes that are called and that call, and have no answer.
            for folder in entries(of: directory) ?? [] {
                if let caller = connected(to: "\(directory)/\(folder)/c", SOCK_SEQPACKET) { callers.append(caller) }
            }
            try withExtendedLifetime(PortRuntime(directory: directory)) { other in
                // Accepted after the callers.
                _ = try other.nameServer.port(forName: "mine")
            }
            guard (try? names.port(forName: "stopped", before: .now)) == nil else { fail("it is not stopped") }
        }
    }
    try round()
    let before = openDescriptors()
    for _ in 0..<10 { try round() }
    check(
        waitUntil(before: .now + .seconds(20)) { openDescriptors() <= before }, "\(openDescriptors() - before) are lost"
    )
    exit(0)
}

/// Starts another process when it is told to, which waits before its program begins, with all descriptors of this one.
func spawnOnDemand() throws -> Never {
    let fifo = PortRuntime.shared.directory + ".fifo"
    mkfifo(fifo, 0o600)
    let port = try MachPort { message in
        _ = Helper {
            var actions = posix_spawn_file_actions_t()
            posix_spawn_file_actions_init(&actions)
            posix_spawn_file_actions_addopen(&actions, 0, fifo, O_RDONLY, 0)
            var (child, arguments) = (pid_t(), [strdup("true"), nil])
            posix_spawn(&child, "/bin/true", &actions, nil, &arguments, environ)
        }
        // The numbers of the processes whose parent this one is.
        func child() -> pid_t? {
            entries(of: "/proc")?.compactMap { pid_t($0) }.first { parent(of: $0) == getpid() }
        }
        check(waitUntil { child() != nil }, "no child")
        try? message.replyPort?.send(MachPort.Message(id: UInt32(child() ?? 0)), before: .now + .seconds(30))
    }
    try PortNameServer.shared.register(port, name: "spawner")
    try port.schedule(in: .current)
    try report(port.sendRight)
    try runForEver()
}

private func parent(of pid: pid_t) -> pid_t? {
    guard let file = fopen("/proc/\(pid)/stat", "r") else { return nil }
    defer { fclose(file) }
    var line = [UInt8](repeating: 0, count: 256)
    let count = fread(&line, 1, line.count, file)
    let text = String(decoding: line.prefix(count), as: UTF8.self)
    return text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ").dropFirst(2).first.flatMap {
        pid_t($0)
    }
}
