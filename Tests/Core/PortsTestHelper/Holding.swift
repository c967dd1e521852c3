import Glibc
import Ports
import RunLoops
import TestSupport

/// The orders to a process that holds a port.
private enum Order: UInt32 {
    /// Claim the port in this message.
    case claim = 1
    /// Hand the port over to the process of this port.
    case handOver
    /// End by `exit`.
    case exit
}

/// Holds a port that moves between processes, and reports each message that it takes.
/// - Parameter name: The name of a port to make; nil for a process that waits for one.
func hold(_ name: String?) throws -> Never {
    let (inbox, reports) = (try MachPort(), try test())
    let held = Shared<MachPort?>(nil)
    func keep(_ port: MachPort) throws {
        port.setHandler { message in
            let bytes = message.withBytes { $0.withUnsafeBytes { Array($0) } } ?? []
            try? reports.send(MachPort.Message(id: 100 + message.id, bytes: bytes), before: .now + .seconds(30))
        }
        held.withLock { $0 = port }
        try port.schedule(in: .current)
    }
    if let name {
        let port = try MachPort(queueLimit: 50)
        try PortNameServer.shared.register(port, name: name)
        try keep(port)
    }
    try report(inbox.sendRight)
    while true {
        try ThreadRunLoop.current.runInMode(seconds: 0)
        guard let message = try? inbox.receive(before: .now + .milliseconds(1)) else { continue }
        switch Order(rawValue: message.id) {
        case .claim:
            guard let right = message.receiveRight(ofComponent: 0) else { fail("no right to receive") }
            do { try keep(right.claim()) } catch { try reports.send(MachPort.Message(id: 99), before: nil) }
        case .handOver:
            guard let right = message.port(ofComponent: 0), let port = held.withLock({ $0.take() }) else { continue }
            try? right.send(
                MachPort.Message(id: Order.claim.rawValue, [.receiveRight(port)]), before: .now + .seconds(30))
            // The port serves on until it is claimed, and the message keeps it.
            held.withLock { $0 = port }
        case .exit: exit(0)
        case nil: fail("no order")
        }
    }
}

/// Moves a port between runtimes of this process, and reports the number of open descriptors before and after.
func moveOften(_ times: Int) throws -> Never {
    let directory = PortNameServer.shared.path
    let homes = (0..<3).map { _ in PortRuntime(directory: directory) }
    let inboxes = try homes.map { try MachPort(nameServer: $0.nameServer) }
    for (index, inbox) in inboxes.enumerated() { try homes[index].nameServer.register(inbox, name: "home \(index)") }
    var current = try MachPort(nameServer: homes[0].nameServer)
    try homes[0].nameServer.register(current, name: "traveller")
    let sender = try PortNameServer.shared.port(forName: "traveller")
    func move(_ step: Int) throws {
        try sender.send(MachPort.Message(id: UInt32(step)), before: .now + .seconds(30))
        let way = try homes[(step + 2) % 3].nameServer.port(forName: "home \(step % 3)")
        try way.send(MachPort.Message(id: 1, [.receiveRight(current)]), before: .now + .seconds(30))
        let message = try inboxes[step % 3].receive(before: .now + .seconds(30))
        guard let right = message.receiveRight(ofComponent: 0) else { fail("no right to receive") }
        current = try right.claim(before: .now + .seconds(30))
        guard try current.receive(before: .now + .seconds(30)).id == UInt32(step) else { fail("another message") }
    }
    for step in 1...times { try move(step) }
    let before = openDescriptors()
    for step in times + 1...3 * times { try move(step) }
    try reportDescriptors(since: before)
}

/// Lends a port to another runtime of this process, and reports the number of open descriptors before and after.
func lendOften(_ times: Int) throws -> Never {
    let directory = PortNameServer.shared.path
    let (lender, borrower) = (PortRuntime(directory: directory), PortRuntime(directory: directory))
    let inbox = try MachPort(nameServer: borrower.nameServer)
    try borrower.nameServer.register(inbox, name: "borrower")
    let way = try lender.nameServer.port(forName: "borrower")
    var port = try MachPort(nameServer: lender.nameServer)
    try lender.nameServer.register(port, name: "lent")
    let sender = try PortNameServer.shared.port(forName: "lent")
    func send(_ id: UInt32) throws { try sender.send(MachPort.Message(id: id), before: .now + .seconds(30)) }
    func take(_ id: UInt32, from port: MachPort) throws {
        guard try port.receive(before: .now + .seconds(30)).id == id else { fail("another message") }
    }
    func lend() throws {
        for id in 1...2 as ClosedRange<UInt32> { try send(id) }
        let loan = try MachPort.Loan(port)
        try way.send(MachPort.Message(id: 1, [.receiveRight(loan.receiveRight)]), before: .now + .seconds(30))
        guard let right = try inbox.receive(before: .now + .seconds(30)).receiveRight(ofComponent: 0) else {
            fail("no right to receive")
        }
        let borrowed = try right.claim(before: .now + .seconds(30))
        for id in 3...4 as ClosedRange<UInt32> { try send(id) }
        try take(1, from: borrowed)
        borrowed.invalidate()
        port = try loan.takeBack(before: .now + .seconds(30))
        for id in 2...4 as ClosedRange<UInt32> { try take(id, from: port) }
    }
    for _ in 0..<times { try lend() }
    let before = openDescriptors()
    for _ in 0..<2 * times { try lend() }
    try reportDescriptors(since: before)
}

private func reportDescriptors(since before: Int) throws -> Never {
    // Sockets that were closed may end later.
    let deadline = ContinuousClock.now + .seconds(30)
    while openDescriptors() > before + 8, .now < deadline { usleep(10_000) }
    try test().send(
        MachPort.Message(id: UInt32(before), bytes: "\(openDescriptors())".utf8), before: .now + .seconds(30))
    try runForEver()
}

/// Claims a port, takes one request, and never comes back from it.
func borrow() throws -> Never {
    let inbox = try MachPort()
    try report(inbox.sendRight)
    guard let right = try inbox.receive(before: .now + .seconds(30)).receiveRight(ofComponent: 0) else {
        fail("no right to receive")
    }
    let reports = try test()
    let server = try LocalMessagePort(claiming: right) { request in
        try? reports.send(MachPort.Message(id: request.id), before: .now + .seconds(30))
        while true { pause() }
    }
    try server.schedule(in: .current)
    try runForEver()
}

/// Claims a port, and offers it on.
func lendOn() throws -> Never {
    let inbox = try MachPort()
    try report(inbox.sendRight)
    guard let right = try inbox.receive(before: .now + .seconds(30)).receiveRight(ofComponent: 0) else {
        fail("no right to receive")
    }
    let port = try right.claim(before: .now + .seconds(30))
    try test().send(MachPort.Message(id: 1, [.receiveRight(port)]), before: .now + .seconds(30))
    try withExtendedLifetime(port) { try runForEver() }
}

/// Claims a port, and answers its requests, one after the other.
func answerLent() throws -> Never {
    let inbox = try MachPort()
    try report(inbox.sendRight)
    guard let right = try inbox.receive(before: .now + .seconds(30)).receiveRight(ofComponent: 0) else {
        fail("no right to receive")
    }
    let server = try LocalMessagePort(claiming: right) { try? $0.replyRight?.reply(with: [22]) }
    try server.schedule(in: .current)
    try runForEver()
}
