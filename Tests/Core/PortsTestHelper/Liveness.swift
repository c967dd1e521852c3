import Glibc
import Ports
import RunLoops
import Synchronization
import TestSupport

/// Owns a name, and is connected to nobody until it was stopped and goes on: then it looks the test up many times, and
/// says how often it has found it, and how many of its rights have ended.
func look() throws -> Never {
    let ended = Mutex(0)
    try ThreadRunLoop.current.add(
        .signal(SIGCONT) { _ in
            var rights: [MachPort.SendRight] = []
            for _ in 0..<50 {
                if let right = try? test() {
                    rights.append(right)
                    right.onInvalidation { ended.withLock { $0 += 1 } }
                }
                // Over the time in which the test's callers give up.
                usleep(1_000)
            }
            let report = Array("found \(rights.count) times, \(ended.withLock { $0 }) ended".utf8)
            do {
                try test().send(MachPort.Message(id: 2, [.bytes(report)]), before: .now + .seconds(30))
            } catch {
                fail("\(error)")
            }
        })
    let port = try MachPort()
    try PortNameServer.shared.register(port, name: "looker")
    try runForEver()
}

/// Asks for the end of each right that it is sent, and forks when it is told to. The child lives on.
func forkOnDemand() throws -> Never {
    let rights = Mutex<[MachPort.SendRight]>([])
    let tester = try test()
    let port = try MachPort { message in
        if case .port(let right)? = message.components.first {
            rights.withLock { $0.append(right) }
            return right.onInvalidation {}
        }
        let child = fork()
        if child == 0 {
            alarm(600)
            while true { pause() }
        }
        let report = MachPort.Message(id: 2, [.bytes(withUnsafeBytes(of: child) { Array($0) })])
        try? tester.send(report, before: .now + .seconds(30))
    }
    try port.schedule(in: .current)
    try report(port.sendRight)
    try runForEver()
}
