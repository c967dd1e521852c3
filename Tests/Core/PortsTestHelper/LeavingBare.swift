import Glibc
import RunLoops
import TestSupport

@testable import Ports

/// Sends to several ports more than their queues hold, loses what the process has, and exits.
func leaveBare(without lacking: String, ports: Int, count: UInt32) throws -> Never {
    try PortRuntime.shared.setFlushBound(.seconds(60))
    let folder = PortNameServer.shared.path
    let rights = try (0..<ports).map { try PortNameServer.shared.port(forName: "port \($0)") }
    let bytes = [UInt8](repeating: 7, count: 1000)
    for number in 0..<count {
        for right in rights { try right.send(id: number, bytes: bytes.span.bytes, before: .now + .seconds(30)) }
    }
    if lacking == "descriptors" {
        var limit = rlimit(rlim_cur: 400, rlim_max: 400)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        while dup(1) >= 0 {}
    }
    // A folder, which takes no descriptor.
    mkdir(folder + "/leaving", 0o700)
    if lacking == "proc" { check(chroot(folder) == 0, "chroot") }
    exit(3)
}
