import Glibc
import Systemd
import TestSupport
import TypedPorts

// A service of the tests, which SIGUSR1 makes stuck in one way.

// Nothing is left behind, also when the test ends early.
alarm(150)

func hang() -> Never { while true { pause() } }

actor Worker {
    func work() { hang() }
}

struct Job: PortRequest { typealias Reply = EmptyReply }

/// Runs the service with a watchdog.
/// - Returns: What SIGUSR1 calls, on the main thread.
func start(_ way: String) throws -> @Sendable () -> Void {
    switch way {
    case "loop":
        try SystemdDaemon.addWatchdog(to: .main)
        return { hang() }
    case "tasks":
        Task { try await SystemdDaemon.runWatchdog() }
        // More than tasks have threads.
        return { for _ in 0..<512 { Task { hang() } } }
    case "actor":
        let worker = Worker()
        Task { try await SystemdDaemon.runWatchdog(on: worker) }
        return { Task { await worker.work() } }
    case "server":
        let server = try RequestServer()
        server.handle(Job.self) { _ in
            try await Task.sleep(for: .seconds(600))
            return EmptyReply()
        }
        Task { try await server.run(atMost: 1) }
        Task { try await SystemdDaemon.runWatchdog { try await server.ping(timeout: $0) } }
        return { Task { try await RequestClient(server.sendRight).request(Job(), timeout: .seconds(600)) } }
    default: fail("there is no such way")
    }
}

func take() throws {
    let first = try SystemdDaemon.takeDescriptors()
    for passed in first {
        let isClosedOnExec = fcntl(passed.descriptor, F_GETFD) & FD_CLOEXEC != 0
        print(passed.name, passed.descriptor, isClosedOnExec)
    }
    print(try SystemdDaemon.takeDescriptors().count)
}

/// A forked child neither notifies nor takes anything.
func forkChild() throws {
    try SystemdDaemon.notify(.status("before"))
    let child = fork()
    if child == 0 {
        let isSilent =
            (try? SystemdDaemon.notify(.status("child"))) == false && (try? SystemdDaemon.takeDescriptors()) == []
            && (try? SystemdDaemon.addWatchdog(to: .main)) == nil
        _exit(isSilent ? 0 : 1)
    }
    var status: Int32 = -1
    check(waitpid(child, &status, 0) == child && status == 0, "the child has status \(status)")
    try SystemdDaemon.notify(.status("after"))
}

let way = CommandLine.arguments.dropFirst().first ?? ""
if way == "take" {
    try take()
} else if way == "fork" {
    try forkChild()
} else {
    let getStuck = try start(way)
    let source = try ThreadRunLoop.Source1.signal(SIGUSR1) { _ in getStuck() }
    try ThreadRunLoop.main.add(source)
    try SystemdDaemon.notify(.ready, .status("works"))
    try ThreadRunLoop.main.run()
}
