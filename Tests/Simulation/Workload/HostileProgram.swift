import CRunLoopShims

@testable import Ports

/// A process of the same user that connects to the others and sends them what it likes. Nothing but its own connections may
/// suffer.
final class HostileProgram: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    let process: Process
    private let scenario: Scenario
    private var sockets: [ControlSocket] = []
    /// Those by which it reads all, and answers nothing.
    private var silent: [ControlSocket] = []
    private var rings: [HostileRing] = []
    private(set) var owner: HostileOwner?

    init(_ process: Process, _ scenario: Scenario) { (self.process, self.scenario) = (process, scenario) }

    private func below(_ bound: Int) -> Int { machine.chance.below(bound) }

    func start() {
        machine.makeThread(process, "hostile") { [self] in
            while !scenario.isClosing {
                attack()
                if owner == nil, below(4) == 0 { owner = HostileOwner() }
                owner?.act()
                if below(6) == 0 { HostileFiles.write() }
                if below(2) == 0, !rings.isEmpty { rings[below(rings.count)].attack() }
                for socket in silent { readAll(of: socket) }
                simulatedPause(below(200))
            }
            (sockets, silent, rings, owner) = ([], [], [], nil)
            machine.exit(process)
        }
    }

    private func attack() {
        if below(3) == 0, !sockets.isEmpty { return sendNonsense(by: sockets[below(sockets.count)]) }
        // The ports that move, most often.
        let target = below(2) == 0 ? scenario.promises.offeredHomes.randomElement(using: &machine.chance) : nil
        let paths = machine.files.paths(below: Scenario.directory).filter { $0.hasSuffix("/c") }
        guard !paths.isEmpty, let descriptor = try? LocalSocket.makeControl() else { return }
        let socket = ControlSocket(descriptor)
        let path = target.map { "/\($0.incarnation)/c" } ?? paths[below(paths.count)]
        guard LocalSocket.connect(descriptor, to: Scenario.directory + path) == 0 else { return }
        var hello = ControlHello(incarnation: .random(), origin: UInt32(below(100)), takesRings: below(2) == 0)
        switch below(4) {
        // It hangs up.
        case 0: return
        case 1: sendBytes(by: socket)
        case 2:
            hello.version &+= UInt8(1 + below(3))
            _ = socket.send(hello)
        case 3 where hello.takesRings:
            // One without rings may send by ZeroMQ, and makes claims fail.
            _ = socket.send(hello)
            _ = socket.send(.watch(target?.number ?? UInt64(1 + below(8))))
            silent.append(socket)
            if silent.count > 4 { silent.removeFirst() }
            return
        default:
            _ = socket.send(hello)
            let port = target?.number ?? UInt64(1 + below(8))
            if below(2) == 0 {
                // Most often one, now and then ring after ring.
                for question in 1...UInt64(below(6) == 0 ? 20 : 1) { openRing(by: socket, to: port, question) }
            } else {
                for _ in 0...below(5) { sendNonsense(by: socket) }
            }
        }
        sockets.append(socket)
        if sockets.count > 8 { sockets.remove(at: below(sockets.count)) }
    }

    /// Asks for a ring to a port.
    private func openRing(by socket: ControlSocket, to port: UInt64, _ question: UInt64) {
        if below(2) == 0 { _ = socket.send(.watch(port)) }
        guard socket.send(.wantsRing(port, question: question)) else { return }
        for _ in 0..<20 {
            simulatedPause(1)
            let ring: HostileRing? = withUnsafeTemporaryAllocation(
                byteCount: ControlMessage.largestSize, alignment: 8
            ) { buffer in
                var descriptors: [OwnedDescriptor] = []
                _ = socket.receive(into: buffer, &descriptors)
                return HostileRing(descriptors)
            }
            guard let ring else { continue }
            rings.append(ring)
            if rings.count > 4 { rings.removeFirst() }
            for _ in 0...below(10) { ring.attack() }
            if question > 1 { ring.announceMemory() }
            if below(4) == 0 { _ = socket.send(.ringClosed(port, question: question)) }
            return
        }
    }

    private func readAll(of socket: ControlSocket) {
        withUnsafeTemporaryAllocation(byteCount: ControlMessage.largestSize, alignment: 8) { buffer in
            var descriptors: [OwnedDescriptor] = []
            while socket.receive(into: buffer, &descriptors) != nil {}
        }
    }

    private func sendBytes(by socket: ControlSocket) {
        let bytes = machine.chance.bytes(1 + below(200))
        _ = crl_send_packet(socket.descriptor, bytes, bytes.count, nil, 0)
    }

    /// A packet that is well formed, about a port that the process has nothing to do with.
    private func sendNonsense(by socket: ControlSocket) {
        let (port, number) = (UInt64(below(6)), machine.chance.next())
        let message: ControlMessage =
            switch below(16) {
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
            case 11: .named(port, "no \(number)")
            case 12: .probed(port)
            case 13: .noRing(port, question: number)
            case 14: .zeroMQ(port, isOpen: number & 1 == 1)
            default: .wantsRing(port, question: number)
            }
        if below(6) == 0 { sendBytes(by: socket) } else { _ = socket.send(message) }
    }
}
