import Glibc
import Ports

let name = "com.example.clock"
/// The id of the message by which the next version asks for the port.
let upgrade: UInt32 = 2

/// Answers requests with the daemon's version, until the next version takes the port over, or the parent ends.
func serve(version: UInt8) async throws {
    let server = try await version == 1 ? LocalMessagePort(name: name) : takeOver()
    let control = try MachPort()
    let parent = try await CheckIn.fromEnvironment().complete(with: control)
    parent.onInvalidation { kill(getpid(), SIGTERM) }
    defer { withExtendedLifetime((control, parent)) {} }
    for await request in server.requests {
        if request.id == upgrade, let next = request.message.port(ofComponent: 0) {
            // Returns when the port has gone, and all requests that came before have their replies.
            try await server.handOver(to: next, before: .now + .seconds(10))
            return
        }
        try request.replyRight?.reply(with: [version])
    }
}

/// Gets the port of the version that runs, with its name and its waiting requests.
func takeOver() async throws -> LocalMessagePort {
    let inbox = try MachPort()
    let running = try await RemoteMessagePort(name: name)
    try await running.sendRight.send(MachPort.Message(id: upgrade, [.port(inbox.sendRight)]))
    let message = try await inbox.receive(before: .now + .seconds(10))
    guard let right = message.receiveRight(ofComponent: 0) else { fatalError("that was not the port") }
    return try await LocalMessagePort(claiming: right)
}
