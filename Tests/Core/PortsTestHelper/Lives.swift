import Glibc
import RunLoops
import TestSupport

@testable import Ports

/// Makes and ends ports, one alive at a time. The count of descriptors stays flat, whatever the ports are used for.
func comeAndGo(_ count: Int) throws -> Never {
    alarm(1200)
    let lives: [(name: String, live: () throws -> Void)] = [
        ("unused ports", { try MachPort { _ in }.invalidate() }), ("ports with a message", liveWithMessage),
        ("ports in a loop", liveInLoop), ("exposed ports", liveExposed),
    ]
    for (_, live) in lives { try live() }
    // Closed sockets that libzmq has not ended, and the two sockets that are made to wait for it.
    let most = openDescriptors() + 64 + 10
    for (name, live) in lives {
        for number in 0..<(name == "exposed ports" ? count / 10 : count / 3) {
            try live()
            guard number % 50 == 0 else { continue }
            // libzmq may have no processor for a while to end the sockets.
            check(
                waitUntil { openDescriptors() <= most }, "\(openDescriptors()) descriptors after \(number) \(name)")
        }
    }
    exit(0)
}

private func liveWithMessage() throws {
    let port = try MachPort { _ in }
    try port.sendRight.send(MachPort.Message(id: 1))
    check(try port.receive(before: .now + .seconds(20)).id == 1, "another message")
    port.invalidate()
}

private func liveInLoop() throws {
    let handled = Shared(0)
    let port = try MachPort { _ in handled.withLock { $0 += 1 } }
    try port.schedule(in: .current)
    try port.sendRight.send(MachPort.Message(id: 1))
    while handled.withLock({ $0 }) == 0 {
        try ThreadRunLoop.current.runInMode(.default, seconds: 20, returnAfterSourceHandled: true)
    }
    port.invalidate()
}

private func liveExposed() throws {
    let port = try MachPort { _ in }
    _ = try port.receiver.expose()
    port.invalidate()
}
