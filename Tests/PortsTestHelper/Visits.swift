import Glibc
import Ports
import RunLoops

/// Sends a message to each of the ports that the test has sent, in so many rounds, then says how many descriptors it has.
func visit(rounds: UInt32, fromTask: Bool) throws -> Never {
    let port = try MachPort()
    try report(port.sendRight)
    let rights = try port.receive(before: .now + .seconds(30)).components.compactMap { component in
        if case .port(let right) = component { right } else { nil }
    }
    let visited = Gate()
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
    try test().send(MachPort.Message(id: UInt32(descriptors())), before: .now + .seconds(30))
    try runForEver()
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
