import Glibc
import Ports
import TestSupport

// Processes that send and take descriptors.

/// A message with the writing end of a pipe, and the pipe's number.
private func message(_ id: UInt32) -> (MachPort.Message, reader: Int32) {
    var ends: [Int32] = [-1, -1]
    check(pipe(&ends) == 0, "no descriptor is left")
    let number = withUnsafeBytes(of: inode(of: ends[1])) { Array($0) }
    let message = MachPort.Message(id: id, [.bytes(number), .descriptor(MessageDescriptor(owning: ends[1]))])
    return (message, ends[0])
}

private func inode(of descriptor: Int32) -> UInt64 {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? UInt64(status.st_ino) : 0
}

/// Sends a number of messages with descriptors to a name, and is killed at once; without a number, sends without end.
func sendDescriptors(to name: String, _ count: UInt32?) throws -> Never {
    let right = try PortNameServer.shared.port(forName: name)
    var number: UInt32 = 0
    while number != count {
        let (message, reader) = message(100 + number)
        try right.send(message, before: .now + .seconds(60))
        close(reader)
        number += 1
    }
    kill(getpid(), SIGKILL)
    while true { pause() }
}

/// Takes messages with descriptors, and drops them.
func takeDescriptors() throws -> Never {
    let port = try MachPort { _ in usleep(100) }
    try port.schedule(in: .current)
    try report(port.sendRight)
    try runForEver()
}

/// Takes messages with one descriptor each, and keeps the descriptors until none is left for others. The messages come all
/// the same, and after that again with theirs.
func takeFewDescriptors() throws -> Never {
    var limit = rlimit(rlim_cur: 150, rlim_max: 150)
    let port = try MachPort()
    try report(port.sendRight)
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    var kept: [MachPort.Message] = []
    var missing = 0
    for id in 0..<300 as Range<UInt32> {
        let message = try port.receive(before: .now + .seconds(60))
        check(message.id == 100 + id, "message \(message.id) in place of \(100 + id)")
        guard let descriptor = message.descriptor(ofComponent: 1) else { fail("no descriptor in message \(id)") }
        do throws(PortError) {
            let found = inode(of: try descriptor.number)
            let isSame = message.withBytes { $0.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) } } == found
            check(isSame, "message \(id) has another descriptor")
            kept.append(message)
        } catch .outOfDescriptors {
            missing += 1
            if missing == 20 { kept = [] }
        } catch {
            fail("\(error)")
        }
    }
    check(missing >= 20, "only \(missing) descriptors were missing")
    exit(0)
}
