import Glibc
import Ports
import RunLoops
import TestSupport

/// Makes ports, reports them in one message, and takes its time for each message.
func ownSlowPorts(_ count: Int) throws -> Never {
    let ports = try (0..<count).map { _ in try MachPort { _ in usleep(1_000) } }
    for port in ports { try port.schedule(in: .current) }
    try test().send(MachPort.Message(ports.map { .port($0.sendRight) }), before: .now + .seconds(30))
    try withExtendedLifetime(ports) { try runForEver() }
}

/// Sends a message to each of the ports that the test names. All are sent, and no port takes more than two sockets.
func sendToMany() throws -> Never {
    let desk = try MachPort()
    try report(desk.sendRight)
    let rights = try desk.receive(before: .now + .seconds(30)).components.compactMap { component in
        if case .port(let right) = component { right } else { nil }
    }
    try rights[0].send(MachPort.Message(id: 1), before: .now + .seconds(30))
    let before = openDescriptors()
    try report(nil)
    let sent = Shared(0)
    for right in rights {
        Task {
            do {
                try await right.send(MachPort.Message(id: 2), before: .now + .seconds(100))
                sent.withLock { $0 += 1 }
            } catch {
                fail("\(error)")
            }
        }
    }
    var most = 0
    let allSent = waitUntil(before: .now + .seconds(100)) {
        most = max(most, openDescriptors())
        return sent.withLock { $0 } == rights.count
    }
    check(allSent, "\(sent.withLock { $0 }) of \(rights.count) messages were sent")
    // An eventfd and a connection for each, as much for the socket before, which libzmq is ending, and what tasks take.
    let expected = before + 4 * rights.count + 100
    check(most <= expected, "\(most) descriptors for \(rights.count) ports, \(expected) expected")
    exit(0)
}
