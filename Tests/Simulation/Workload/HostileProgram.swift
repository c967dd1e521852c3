import CRunLoopShims

@testable import Ports

/// A process of the same user that connects to the others and sends them what it likes. Nothing but its own connections may
/// suffer.
final class HostileProgram: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    private let process: Process
    private let scenario: Scenario
    private var sockets: [ControlSocket] = []

    init(_ process: Process, _ scenario: Scenario) { (self.process, self.scenario) = (process, scenario) }

    private func below(_ bound: Int) -> Int { machine.chance.below(bound) }

    func start() {
        machine.makeThread(process, "hostile") { [self] in
            while !scenario.isClosing {
                attack()
                simulatedPause(below(200))
            }
            sockets = []
            machine.exit(process)
        }
    }

    private func attack() {
        if below(3) == 0, !sockets.isEmpty { return sendNonsense(by: sockets[below(sockets.count)]) }
        let paths = machine.files.paths(below: Scenario.directory).filter { $0.hasSuffix("/c") }
        guard !paths.isEmpty, let descriptor = try? LocalSocket.makeControl() else { return }
        let socket = ControlSocket(descriptor)
        guard LocalSocket.connect(descriptor, to: Scenario.directory + paths[below(paths.count)]) == 0 else { return }
        var hello = ControlHello(incarnation: .random(), origin: UInt32(below(100)), takesLanes: below(2) == 0)
        switch below(4) {
        // It hangs up.
        case 0: return
        case 1: sendBytes(by: socket)
        case 2:
            hello.version &+= UInt8(1 + below(3))
            _ = socket.send(hello)
        default:
            _ = socket.send(hello)
            for _ in 0...below(5) { sendNonsense(by: socket) }
        }
        sockets.append(socket)
        if sockets.count > 8 { sockets.remove(at: below(sockets.count)) }
    }

    private func sendBytes(by socket: ControlSocket) {
        let bytes = (0...below(200)).map { _ in UInt8(truncatingIfNeeded: machine.chance.next()) }
        _ = crl_send_packet(socket.descriptor, bytes, bytes.count, nil, 0)
    }

    /// A packet that is well formed, about a port that the process has nothing to do with.
    private func sendNonsense(by socket: ControlSocket) {
        let (port, number) = (UInt64(below(6)), machine.chance.next())
        let message: ControlMessage =
            switch below(12) {
            case 0: .watch(port)
            case 1: .invalidated(port)
            case 2: .unanswered(number)
            case 3: .refused(number)
            case 4: .cancelled(number)
            case 5: .credit(port, bytes: number)
            case 6: .count(port)
            case 7: .sent(port, count: number)
            case 8: .drained(port, probe: number)
            case 9: .finishing(port)
            case 10: .finished(port)
            default: .wantsLane(port, question: number)
            }
        if below(6) == 0 { sendBytes(by: socket) } else { _ = socket.send(message) }
    }
}
