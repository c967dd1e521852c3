import Glibc
import Ports
import RunLoops
import Synchronization
import TestSupport

/// Owns a port whose messages nobody takes until it is told to, and another that sends each message back.
func hoard(queueLimit: Int) throws -> Never {
    alarm(600)
    let tester = try test()
    let hoarded = try MachPort(queueLimit: queueLimit)
    let echo = try MachPort { message in
        try? message.replyPort?.send(MachPort.Message(id: message.id), before: .now + .seconds(10))
    }
    let taken = Atomic(0)
    let before = heapUse()
    let control = try MachPort { message in
        switch message.id {
        case 1: hoarded.setHandler { _ in taken.add(1, ordering: .relaxed) }
        default: break
        }
        let figures = [taken.load(ordering: .relaxed), max(0, heapUse() - before)]
        try? tester.send(MachPort.Message(id: 3, [.bytes(figures.withUnsafeBytes { Array($0) })]))
    }
    for port in [hoarded, echo, control] { try port.schedule(in: .current) }
    try tester.send(
        MachPort.Message(
            id: 1, [.port(hoarded.sendRight), .port(echo.sendRight)], replyPort: control.sendRight))
    try runForEver()
}

/// Sends messages of some size to the port that it is given, until there is no room for more, and says how many there
/// were and what they cost; then sends one more, and waits for room as long as it takes.
func press(size: Int) throws -> Never {
    alarm(600)
    let tester = try test()
    let port = try MachPort()
    try report(port.sendRight)
    guard case .port(let right)? = try port.receive(before: .now + .seconds(60)).components.first else {
        fail("no right")
    }
    let message = MachPort.Message([.bytes([UInt8](repeating: 1, count: size))])
    let before = heapUse()
    var count = 0
    let end = Result { () throws(PortError) in
        while true {
            try right.send(message, before: .now + .milliseconds(200))
            count += 1
        }
    }
    guard case .failure(.sendTimedOut) = end else { fail("\(end)") }
    let figures = [count, max(0, heapUse() - before)]
    try tester.send(MachPort.Message(id: 2, [.bytes(figures.withUnsafeBytes { Array($0) })]))
    try PortRuntime.shared.setFlushBound(.seconds(60))
    try right.send(message)
    exit(0)
}
