import TestSupport

@testable import Ports

extension Child {
    static let program = folder + "/PortsTestHelper"

    /// A process of the tests' helper program.
    ///
    /// - Parameter wrapper: A command that runs the helper, given to it as its last words.
    convenience init(_ arguments: String..., in sandbox: Sandbox, wrapper: [String] = []) {
        self.init(wrapper + [Self.program] + arguments, environment: ["PORTS_DIRECTORY": sandbox.path])
    }
}

/// The port that children report to.
struct Desk {
    let port: MachPort

    init(_ sandbox: Sandbox, queueLimit: Int = 1000) throws {
        port = try MachPort(queueLimit: queueLimit, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
    }

    /// Waits for a child's report, and gives the port to reach it at.
    func report() throws -> MachPort.SendRight {
        let message = try port.receive(before: Scale.patience)
        guard message.id == 1, let right = message.replyPort else {
            throw PortError.unavailable(reason: "message \(message.id) is no report")
        }
        return right
    }
}
