import Dispatch
import Glibc
import Ports
import RunLoops
import TestSupport

/// Makes this a process of a user who has no other, and whose limits count: root's do not.
private func leaveRoot() {
    guard geteuid() == 0 else { return }
    let user: uid_t = 60_000 + uid_t(getpid() % 5_000)
    guard chown(PortNameServer.shared.path, user, user) == 0, setgroups(0, nil) == 0, setgid(user) == 0,
        setuid(user) == 0
    else { fail("cannot leave root") }
}

/// Lets the user have so many threads; nil for as many as at first.
private func allowThreads(_ count: UInt?) {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(__RLIMIT_NPROC.rawValue), &limit)
    limit.rlim_cur = count ?? limit.rlim_max
    setrlimit(__rlimit_resource_t(__RLIMIT_NPROC.rawValue), &limit)
}

/// Without a thread to be had, what takes one throws; with some, it is there.
func goOnWithoutThreads() throws -> Never {
    leaveRoot()
    // libzmq takes two.
    for count in 1...2 { refuses(threads: count) { _ = try MachPort() } }
    allowThreads(nil)
    let port = try MachPort()
    // To be reached by others takes one more.
    refuses(threads: 1) { try PortNameServer.shared.register(port, name: "reached") }
    // What needs none goes on.
    try port.sendRight.send(MachPort.Message(id: 5))
    guard try port.receive(before: .now + .seconds(20)).id == 5 else { fail("another message") }
    allowThreads(nil)
    try PortNameServer.shared.register(port, name: "reached")
    guard try PortNameServer.shared.port(forName: "reached") == port.sendRight else { fail("another port") }
    exit(0)
}

/// With so many threads, the process's own among them, there is one too few.
private func refuses(threads: Int, _ body: () throws -> Void) {
    allowThreads(UInt(threads))
    let outcome = Result(catching: body)
    guard case .failure(let error as PortError) = outcome, error == .runLoop(.outOfThreads(limit: UInt64(threads)))
    else {
        fail("with \(threads) threads: \(outcome)")
    }
}

/// Sends from a process that ends at once, and has no thread to end with: all arrives.
func leaveWithoutThreads() throws -> Never {
    leaveRoot()
    let count = 1000 as UInt32
    let child = fork()
    if child == 0 {
        alarm(60)
        // The child has not used the library before.
        let right = try PortNameServer.shared.waitForPort(forName: "test", before: .now + .seconds(20))
        try PortRuntime.shared.setFlushBound(.seconds(30))
        let bytes = [UInt8](repeating: 7, count: 20_000)
        for number in 0..<count { try right.send(MachPort.Message(id: number, [.bytes(bytes)])) }
        allowThreads(1)
        if (try? RunLoopThread()) != nil { fail("there is a thread") }
        exit(0)
    }
    let port = try MachPort(queueLimit: Int(count))
    try PortNameServer.shared.register(port, name: "test")
    for number in 0..<count {
        guard let message = try? port.receive(before: .now + .seconds(20)) else { fail("\(number) is lost") }
        guard message.id == number else { fail("\(message.id) in place of \(number)") }
    }
    var status: Int32 = 0
    while waitpid(child, &status, 0) < 0, errno == EINTR {}
    exit(status == 0 ? 0 : 71)
}

/// Has another thread handle a message for a delegate that belongs to the main thread.
func handleElsewhere(_ place: String) throws -> Never {
    final class Local: MachPort.Delegate {
        func handle(_ message: MachPort.Message, of port: MachPort) { fail("handled elsewhere") }
    }
    let (port, delegate, thread) = (try MachPort(), Local(), try RunLoopThread())
    port.setLocalDelegate(delegate)
    if place == "queue" { try port.setQueue(.global()) } else { try port.schedule(in: thread.loop) }
    try port.sendRight.send(MachPort.Message(id: 1))
    _ = Latch().wait(until: .now + .seconds(20))
    withExtendedLifetime((delegate, thread)) { fail("nothing happened") }
}
