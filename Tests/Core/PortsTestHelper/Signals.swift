import Glibc
import Ports
import RunLoops
import TestSupport

/// Uses ports while a signal, whose handler has no SA_RESTART, comes ten thousand times a second: nothing fails.
func goOnInterrupted(_ rounds: Int) throws -> Never {
    var action = sigaction()
    action.__sigaction_handler.sa_handler = { _ in }
    sigaction(SIGUSR1, &action, nil)
    let (main, isOver) = (pthread_self(), Latch())
    let interrupter = try RunLoopThread { _ in
        while !isOver.wait(until: .now + .microseconds(100)) { pthread_kill(main, SIGUSR1) }
    }
    let tester = try test()
    for _ in 0..<rounds {
        let port = try MachPort()
        try PortNameServer.shared.register(port, name: "interrupted")
        guard try PortNameServer.shared.port(forName: "interrupted") == port.sendRight else { fail("another port") }
        try port.sendRight.send(MachPort.Message(id: 1), before: .now + .seconds(20))
        guard try port.receive(before: .now + .seconds(20)).id == 1 else { fail("another message") }
        // The tester connects to the port, and this process to one of the tester's.
        try tester.send(MachPort.Message(id: 2, replyPort: port.sendRight), before: .now + .seconds(20))
        guard let right = try port.receive(before: .now + .seconds(20)).replyPort else { fail("no reply port") }
        try right.send(MachPort.Message(id: 3), before: .now + .seconds(20))
        port.invalidate()
    }
    isOver.open()
    withExtendedLifetime(interrupter) { exit(0) }
}
