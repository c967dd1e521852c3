import TestSupport
import Testing

@testable import Ports

/// A process that claims a port, and gets all that waits there, without taking the port.
final class Claimant {
    let parts: MachPort
    private let answers: MachPort.SendRight
    private(set) var ids: [UInt32] = []

    /// - Parameters:
    ///   - right: The right in another runtime than the borrower's.
    ///   - isStopped: Whether it takes nothing.
    init(_ right: MachPort.ReceiveRight, isStopped: Bool = false) throws {
        let runtime = try right.offer.channel.retainedRuntime()
        parts = try MachPort(queueLimit: isStopped ? 1 : 10_000, nameServer: runtime.nameServer)
        try right.offer.send(MachPort.Message(.claim, replyPort: parts.sendRight), before: .patience)
        answers = try #require(try parts.receive(before: .patience).replyPort)
        try answers.send(MachPort.Message(.ready, [MachPort.Message.bytes(of: [77])]), before: .patience)
        while !isStopped {
            let message = try parts.receive(before: .patience)
            guard message.step == .message else {
                #expect(message.step == .complete)
                return
            }
            if let waiting = message.waiting { ids.append(waiting.header.id) }
        }
    }

    /// Takes the port, and none of its names.
    func take(_ port: PortID, in directory: RegistryDirectory) throws {
        try commit(port, in: directory)
        try sayTaken()
    }

    /// Takes the port, and does not say so yet.
    func commit(_ port: PortID, in directory: RegistryDirectory) throws {
        #expect(directory.commitMove(of: port, to: PortID(incarnation: parts.id.incarnation, number: 77)))
    }

    /// An answer that says nothing at this step.
    func sayReady() throws { try answers.send(MachPort.Message(.ready), before: .patience) }
    func sayTaken() throws { try answers.send(MachPort.Message(.taken), before: .patience) }

    func fail() throws {
        try answers.send(MachPort.Message(failed: .cannotMove(reason: "a test")), before: .patience)
    }
}
