import Dispatch
import Glibc
import Ports
import RunLoops
import Synchronization
import TestSupport

/// Sends messages that nobody may be reading, and ends the process in some way with the status 3. Before the library
/// has its say at the exit, a file tells that it has come to that.
///
/// - Returns: So that the program ends by returning.
func leave(_ way: String, _ count: UInt32, flushBound: Duration) throws {
    let right = try test()
    try PortRuntime.shared.setFlushBound(flushBound)
    // Much else is open: ports that loops, queues and tasks serve, one that is full, and threads that wait.
    let served = try MachPort { _ in }
    let full = try MachPort(queueLimit: 1)
    let unanswering = try MachPort()
    let queued = try MachPort { _ in }
    try queued.setQueue(DispatchQueue(label: "leaving"))
    Task.detached { for await _ in unanswering.messages { try? await Task.sleep(for: .seconds(60)) } }
    Task.detached { try await full.sendRight.send(MachPort.Message()) }
    let jobs: [@Sendable () throws -> Void] = [
        { while true { try full.sendRight.send(MachPort.Message()) } },
        { _ = try served.receive() },
        { _ = try RemoteMessagePort(unanswering.sendRight).request(id: 1, timeout: .seconds(60)) },
        { _ = try PortNameServer.shared.waitForPort(forName: "nobody") },
    ]
    let threads = try jobs.map { job in try RunLoopThread { _ in try? job() } }
    let loop = try RunLoopThread()
    try served.schedule(in: loop.loop)
    let bytes = [UInt8](repeating: 7, count: 1000)
    for number in 0..<count { try right.send(id: number, bytes: bytes.span.bytes, before: .now + .seconds(30)) }
    // The last to be registered is the first to be called.
    atexit { close(creat(PortNameServer.shared.path + "/leaving", 0o600)) }
    try withExtendedLifetime((threads, loop, queued)) {
        switch way {
        case "exit":
            exit(3)
        case "return":
            return
        case "thread":
            let thread = try RunLoopThread { _ in exit(3) }
            while true { _ = withExtendedLifetime(thread) { pause() } }
        case "callout":
            let port = try MachPort { _ in exit(3) }
            try port.schedule(in: .current)
            try port.sendRight.send(MachPort.Message())
            try runForEver()
        case "signal":
            let source = try ThreadRunLoop.Source1.signal(SIGTERM) { _ in exit(3) }
            try ThreadRunLoop.current.add(source)
            kill(getpid(), SIGTERM)
            try runForEver()
        case "kill":
            kill(getpid(), SIGKILL)
        default:
            fail("unknown way")
        }
    }
}

/// Exits with more messages on the way than a queue holds, and with a port that another thread serves.
func leaveServing(_ count: UInt32) throws -> Never {
    try PortRuntime.shared.setFlushBound(.seconds(60))
    let right = try test()
    let served = try MachPort { _ in }
    let thread = try RunLoopThread()
    try served.schedule(in: thread.loop)
    try report(served.sendRight)
    let bytes = [UInt8](repeating: 7, count: 1000)
    for number in 0..<count { try right.send(id: number, bytes: bytes.span.bytes, before: .now + .seconds(30)) }
    withExtendedLifetime((thread, served)) { exit(3) }
}

/// Answers one request, and ends the process or invalidates the port at once.
func answerAndLeave(_ way: String) throws -> Never {
    let made = Mutex<LocalMessagePort?>(nil)
    let server =
        switch way {
        case "handler": try LocalMessagePort { _, data in data }
        default:
            try LocalMessagePort { request in
                try? request.replyRight?.reply(with: request.data)
                if way == "invalidate" { made.withLock { $0 }?.invalidate() }
            }
        }
    made.withLock { $0 = server }
    try server.schedule(in: .current)
    try report(server.sendRight)
    try ThreadRunLoop.current.runInMode(.default, seconds: 30, returnAfterSourceHandled: true)
    if way == "invalidate" { try runForEver() }
    exit(0)
}
