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
