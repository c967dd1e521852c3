import CRunLoopShims
import Glibc

@testable import Ports

/// A control socket of the hostile process, in a folder of its own, as that of a process with ports. Whoever calls gets
/// what the hostile process likes.
final class HostileOwner {
    /// A port that is not there.
    let right: WireRight
    private let listener: ControlSocket
    private var callers: [ControlSocket] = []
    private var rings: [HostileRing] = []

    init?() {
        let incarnation = Incarnation.random()
        let folder = "\(Scenario.directory)/\(incarnation)"
        guard mkdirat(AT_FDCWD, folder, 0o700) == 0,
            let listener = try? LocalSocket.listenForControl(at: folder + "/c")
        else { return nil }
        self.listener = ControlSocket(listener)
        right = WireRight(
            id: PortID(incarnation: incarnation, number: 1), queueLimit: 10, limit: 1 << 20,
            byteLimit: machine.chance.oneIn(2) ? 1_000 : 0, path: Scenario.directory)
    }

    func act() {
        let caller = crl_unforked_accept(listener.descriptor)
        if caller >= 0 { answer(ControlSocket(caller)) }
        if machine.chance.oneIn(3), let ring = rings.randomElement(using: &machine.chance) { ring.attack() }
        for caller in callers { readPackets(of: caller) }
        if callers.count > 8 { callers.remove(at: machine.chance.below(callers.count)) }
    }

    private func answer(_ caller: ControlSocket) {
        var hello = ControlHello(
            incarnation: right.id.incarnation, origin: 7, takesRings: machine.chance.oneIn(2))
        switch machine.chance.below(6) {
        // It hangs up, or says nothing.
        case 0: return
        case 1: break
        case 2:
            hello.version &+= 1
            _ = caller.send(hello)
        case 3: _ = caller.send(ControlHello(incarnation: .random()))
        default: _ = caller.send(hello)
        }
        callers.append(caller)
    }

    private func readPackets(of caller: ControlSocket) {
        withUnsafeTemporaryAllocation(byteCount: ControlMessage.largestSize, alignment: 8) { buffer in
            var descriptors: [OwnedDescriptor] = []
            while let packet = caller.receive(into: buffer, &descriptors) {
                if case .wantsRing(let port, let question)? = ControlMessage(packet) { answer(caller, port, question) }
            }
        }
    }

    private func answer(_ caller: ControlSocket, _ port: UInt64, _ question: UInt64) {
        switch machine.chance.below(4) {
        case 0: break
        case 1: _ = caller.send(.noRing(port, question: question))
        case 2: _ = caller.send(.ring(port, question: question), [OwnedDescriptor(dup(caller.descriptor))])
        default:
            guard let (ring, descriptors) = HostileRing.make() else { return }
            if caller.send(.ring(port, question: question), descriptors) { rings.append(ring) }
            if rings.count > 4 { rings.removeFirst() }
        }
    }
}
