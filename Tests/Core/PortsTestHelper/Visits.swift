import Glibc
import Ports
import RunLoops
import TestSupport

/// Sends a message to each of the ports that the test has sent, in so many rounds, then says how many descriptors it has.
func visit(rounds: UInt32, fromTask: Bool) throws -> Never {
    let rights = try rightsFromTest()
    let visited = Latch()
    if fromTask {
        Task {
            for round in 0..<rounds { for right in rights { try await visit(right, round) } }
            visited.open()
        }
    } else {
        for round in 0..<rounds { for right in rights { try visit(right, round) } }
        visited.open()
    }
    guard visited.wait(until: .now + .seconds(50)) else { fail("not in time") }
    try test().send(MachPort.Message(id: UInt32(openDescriptors())), before: .now + .seconds(30))
    try runForEver()
}

private func rightsFromTest() throws -> [MachPort.SendRight] {
    let port = try MachPort()
    try report(port.sendRight)
    return try port.receive(before: .now + .seconds(30)).components.compactMap { component in
        if case .port(let right) = component { right } else { nil }
    }
}

private func visit(_ right: MachPort.SendRight, _ round: UInt32) throws {
    while true {
        do {
            return try right.send(MachPort.Message(id: round), before: .now + .seconds(30))
        } catch PortError.outOfDescriptors {
            // A moment's work for the ports that have to say what they have taken.
            usleep(1000)
        }
    }
}

private func visit(_ right: MachPort.SendRight, _ round: UInt32) async throws {
    while true {
        do {
            return try await right.send(MachPort.Message(id: round), before: .now + .seconds(30))
        } catch PortError.outOfDescriptors {
            try await Task.sleep(for: .milliseconds(1))
        }
    }
}

/// Fills the queues of ports of the test, until there is no descriptor left for another connection; then it goes on
/// trying to send to the last.
func fillUp() throws -> Never {
    let rights = try rightsFromTest()
    let bytes = [UInt8](repeating: 7, count: 50_000)
    for right in rights {
        let end = Result {
            // What is on its way still makes room for a moment.
            while true { try right.send(MachPort.Message(id: 1, [.bytes(bytes)]), before: .now + .milliseconds(5)) }
        }
        if case .failure(PortError.outOfDescriptors) = end { break }
    }
    // The test's own port might not be reached either.
    close(creat(PortNameServer.shared.path + "/full", 0o600))
    if let last = rights.last { try visit(last, 2) }
    try runForEver()
}
