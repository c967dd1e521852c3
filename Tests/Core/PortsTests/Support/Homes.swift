import TestSupport
import Testing

@testable import Ports

/// Runtimes of one test that send rights and ports to each other.
final class Homes: Sendable {
    private let sandbox: Sandbox
    /// They live as long as the test, unless they are released before.
    private let runtimes = Shared<[PortRuntime]>([])

    init(_ sandbox: Sandbox) { self.sandbox = sandbox }

    func runtime(_ sharedMemory: PortRuntime.SharedMemoryUse = .whenPossible) -> PortRuntime {
        let runtime = PortRuntime(directory: sandbox.path, sharedMemory: sharedMemory)
        runtimes.withLock { $0.append(runtime) }
        return runtime
    }

    /// Sends a message from a runtime to another.
    func carry(
        _ component: MachPort.Message.Component, from sender: PortRuntime, to receiver: PortRuntime
    ) throws -> MachPort.Message {
        let inbox = try MachPort(nameServer: receiver.nameServer)
        let name = "inbox \(inbox.id.number) of \(inbox.id.incarnation)"
        try receiver.nameServer.register(inbox, name: name)
        try sender.nameServer.port(forName: name, before: .patience).send(
            MachPort.Message(id: 7, [component]), before: .patience)
        return try inbox.receive(before: .patience)
    }

    /// The right of another runtime to a port.
    func right(to port: MachPort, in runtime: PortRuntime) throws -> MachPort.SendRight {
        try #require(carry(.port(port.sendRight), from: port.runtime, to: runtime).port(ofComponent: 0))
    }

    /// The right to receive from a port, in another runtime.
    func received(_ port: MachPort, in runtime: PortRuntime) throws -> MachPort.ReceiveRight {
        try received(try MachPort.ReceiveRight(port), of: port, in: runtime)
    }

    func received(
        _ right: MachPort.ReceiveRight, of port: MachPort, in runtime: PortRuntime
    ) throws -> MachPort.ReceiveRight {
        try #require(carry(.receiveRight(right), from: port.runtime, to: runtime).receiveRight(ofComponent: 0))
    }
}
