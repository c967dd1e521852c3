import Glibc
import Ports
import RunLoops
import TestSupport

// Processes that may not make rings, or have no memory for them.

/// Does something in a process in which `memfd_create` fails with an error.
func runWithoutMemory(_ error: Int32, _ command: String, _ arguments: [String]) throws -> Never {
    check(forbidMemory(error), "no filter")
    try run(command, arguments)
}

/// Does something in a process whose address space may grow by a number of MiB.
func runInAddressSpace(growingBy mebibytes: Int, _ command: String, _ arguments: [String]) throws -> Never {
    try limitAddressSpace(growth: mebibytes)
    try run(command, arguments)
}

/// Limits the address space to its present size and a number of MiB; nil for no limit.
func limitAddressSpace(growth mebibytes: Int?) throws {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    if let mebibytes {
        let pages = String(decoding: bytes(ofFile: "/proc/self/statm"), as: UTF8.self).split(separator: " ").first
        limit.rlim_cur = rlim_t((Int(pages ?? "") ?? 0) * Int(getpagesize()) + mebibytes << 20)
    }
    check(setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, "no limit")
}

/// Owns a port, and takes a number of numbered messages, each once and in order.
func takeNumbered(_ count: UInt32) throws -> Never {
    let port = try MachPort()
    try PortNameServer.shared.register(port, name: "numbered")
    try report(port.sendRight)
    try take(count, from: port)
}

private func take(_ count: UInt32, from port: MachPort) throws -> Never {
    for number in 0..<count {
        let message = try port.receive(before: .now + .seconds(60))
        guard message.id == number else { fail("\(message.id) came in place of \(number)") }
        guard message.withBytes({ $0.withUnsafeBytes { Array($0) } }) == numberedBytes(number) else {
            fail("message \(number) has other bytes")
        }
    }
    guard (try? port.receive(before: .now + .milliseconds(100))) == nil else { fail("one more message") }
    exit(0)
}

/// Sends a number of numbered messages, and then a last one with the carriers that they took.
func sendNumbered(_ count: UInt32) throws -> Never {
    let right = try test()
    try PortRuntime.shared.setFlushBound(.seconds(30))
    var carriers: [String] = []
    for number in 0..<count {
        try right.send(id: number, bytes: numberedBytes(number).span.bytes, before: .now + .seconds(60))
        let carrier = right.carrier.map { "\($0)" } ?? "none"
        if carriers.last != carrier { carriers.append(carrier) }
    }
    let text = Array(carriers.joined(separator: " ").utf8)
    try right.send(MachPort.Message(id: count, [.bytes(text)]), before: .now + .seconds(60))
    exit(0)
}

/// Lowers the limit on descriptors to those that the process has, or raises it again.
private func allowDescriptors(_ areMore: Bool) {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = areMore ? limit.rlim_max : rlim_t(openDescriptors())
    check(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, "no limit")
}

/// Sends the first message while no descriptor is left for a ring or a socket, and then the others.
func sendNumberedWithoutDescriptors(_ count: UInt32) throws -> Never {
    let right = try test()
    try PortRuntime.shared.setFlushBound(.seconds(30))
    var next = 0 as UInt32
    func send(before deadline: ContinuousClock.Instant) throws(PortError) {
        try right.send(id: next, bytes: numberedBytes(next).span.bytes, before: deadline)
        next += 1
    }
    allowDescriptors(false)
    do throws(PortError) {
        try send(before: .now + .seconds(2))
    } catch {
        switch error {
        case .outOfDescriptors, .cannotConnect, .sendTimedOut: break
        default: fail("\(error)")
        }
    }
    allowDescriptors(true)
    while next < count { try send(before: .now + .seconds(60)) }
    exit(0)
}

/// Owns a port, and has no descriptor left for a ring of the test's process until there is a file.
func takeNumberedWithoutDescriptors(_ count: UInt32, until file: String) throws -> Never {
    let (port, tester) = (try MachPort(), try test())
    try report(port.sendRight)
    allowDescriptors(false)
    // Without a lookup, which takes a descriptor.
    try tester.send(MachPort.Message(id: 1), before: .now + .seconds(30))
    while access(file, F_OK) != 0 { usleep(1000) }
    allowDescriptors(true)
    try take(count, from: port)
}

/// Sends numbered messages of one size. Says whether one had no room for a second, though the queue has.
/// - Parameter group: The file that lists a memory cgroup's processes, which this one joins with all that it has.
func fillRing(_ count: UInt32, size: Int, joining group: String?) throws -> Never {
    let right = try test()
    var hasTimedOut = false
    var bytes = [UInt8](repeating: 0, count: size)
    if let group {
        // The code, the stacks and the array get their pages here. In the group, the process might stop in a page fault of
        // its own in place of the send that is meant.
        guard mlockall(MCL_CURRENT) == 0 else { fail("mlockall: \(errno)") }
        let processes = open(group, O_WRONLY | O_CLOEXEC)
        guard write(processes, "0", 1) == 1 else { fail("joining \(group): \(errno)") }
        close(processes)
    }
    for number in 0..<count {
        _ = bytes.withUnsafeMutableBytes {
            $0.initializeMemory(as: UInt8.self, repeating: UInt8(truncatingIfNeeded: number))
        }
        func send(within wait: Duration) throws(PortError) {
            try right.send(id: number, bytes: bytes.span.bytes, before: .now + wait)
        }
        do throws(PortError) {
            try send(within: .seconds(1))
        } catch {
            guard case .sendTimedOut = error else { fail("\(error)") }
            hasTimedOut = true
            try send(within: .seconds(60))
        }
    }
    exit(hasTimedOut ? 0 : 71)
}

/// Takes messages, and keeps all of them.
func keepAll() throws -> Never {
    let port = try MachPort()
    try report(port.sendRight)
    var kept: [MachPort.Message] = []
    while true { kept.append(try port.receive(before: .now + .seconds(60))) }
}

/// Sends messages to many ports, which offer a ring each.
func sendToNamed(_ count: Int) throws -> Never {
    let rights = try (0..<count).map { try PortNameServer.shared.port(forName: "port \($0)") }
    try PortRuntime.shared.setFlushBound(.seconds(30))
    for number in [99, 0, 1] as [UInt32] {
        for right in rights {
            try right.send(id: number, bytes: numberedBytes(number).span.bytes, before: .now + .seconds(60))
        }
    }
    exit(0)
}
