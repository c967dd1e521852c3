import Glibc
import Ports
import RunLoops
import TestSupport

/// Forks while threads send and receive, so that all locks are held by somebody at some fork: the child gets an error
/// from whatever it tries, or nothing, and ends; the parent's messages arrive, each once and in order.
func forkWhileBusy(_ count: Int) throws -> Never {
    alarm(300)
    let isOver = Latch()
    let (one, other) = (try MachPort(queueLimit: 50), try MachPort(queueLimit: 50))
    try PortNameServer.shared.register(one, name: "busy")
    try one.sendRight.send(MachPort.Message([.port(other.sendRight)]))
    let received = try one.receive(before: .now + .seconds(30))
    let ends = try [one, other].map { port in
        let (begun, ended) = (Latch(), Latch())
        let sender = try RunLoopThread { _ in
            var number: UInt32 = 0
            while !isOver.wait(until: .distantPast) {
                try? port.sendRight.send(MachPort.Message(id: number), before: .now + .seconds(30))
                number += 1
            }
            try? port.sendRight.send(MachPort.Message(id: .max), before: .now + .seconds(30))
        }
        let receiver = try RunLoopThread { _ in
            var number: UInt32 = 0
            while true {
                guard let message = try? port.receive(before: .now + .seconds(60)) else { fail("lost one") }
                if message.id == .max { break }
                guard message.id == number else { fail("\(message.id) in place of \(number)") }
                number += 1
                if number == 1000 { begun.open() }
            }
            ended.open()
        }
        // The first use of a type takes a lock of Swift's own, which would stay locked in a child.
        guard begun.wait(until: .now + .seconds(60)) else { fail("the parent does not begin") }
        return (ended, sender, receiver)
    }
    func attempt(_ number: Int) throws {
        switch number {
        case 0: try one.sendRight.send(MachPort.Message())
        case 1: _ = try other.receive()
        case 2: _ = try MachPort()
        case 3: _ = try PortNameServer.shared.port(forName: "busy")
        case 4:
            guard case .port(let right)? = received.components.first else { return }
            try right.send(MachPort.Message())
        default: throw PortError.unavailable(reason: "")
        }
    }
    // As above: this is what the child does around its attempts.
    do { try attempt(5) } catch PortError.unavailable {} catch { fail("\(error)") }
    for _ in 0..<count {
        let child = fork()
        if child == 0 {
            alarm(60)
            for number in 0..<5 {
                do {
                    try attempt(number)
                    _exit(10)
                } catch PortError.unavailable {
                    continue
                } catch {
                    _exit(11)
                }
            }
            one.setHandler { _ in }
            one.onInvalidation {}
            one.sendRight.onInvalidation {}
            _ = (one.isValid, one.malformedCount, one.isScheduled(in: .current), one.delegate == nil)
            one.invalidate()
            // What runs at exit, too.
            exit(0)
        }
        var status: Int32 = 0
        waitpid(child, &status, 0)
        guard status == 0 else { fail("a child has ended with \(status)") }
    }
    isOver.open()
    for (ended, _, _) in ends where !ended.wait(until: .now + .seconds(60)) { fail("the parent hangs") }
    guard try PortNameServer.shared.port(forName: "busy") == one.sendRight else { fail("the name is lost") }
    exit(0)
}
