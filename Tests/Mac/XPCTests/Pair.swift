import Ports
import RunLoops
import TestSupport
import Testing

@testable import XPC

struct Question: Codable, Sendable, Equatable { var number: Int }
struct Answer: Codable, Sendable, Equatable { var text: String }

/// A listener and its clients in a registry directory of their own.
final class Names: Sendable {
    let folder = TemporaryFolder()
    let runtime: PortRuntime

    init() { runtime = PortRuntime(directory: folder.path) }

    func listener(
        named name: String? = "service", options: XPCListener.InitializationOptions = .none,
        requirement: XPCPeerRequirement? = nil, _ handler: @escaping ListenerCore.SessionHandler
    ) throws -> XPCListener {
        try XPCListener(
            name: name, nameServer: runtime.nameServer, ListenerSettings(requirement: requirement), options, handler)
    }

    func session(
        _ name: String = "service", options: XPCSession.InitializationOptions = .none,
        requirement: XPCPeerRequirement? = nil, incoming: SessionState.IncomingHandler? = nil,
        cancellation: SessionState.CancellationHandler? = nil
    ) throws -> XPCSession {
        try XPCSession(
            to: .service(name, runtime.nameServer), nil, options, requirement: requirement, incoming: incoming,
            cancellation: cancellation)
    }
}

extension Names {
    /// Starts the helper's service, and waits for its name.
    func startService(_ command: String = "serve") throws -> Child {
        let child = Child([Child.folder + "/XPCTestHelper", command], environment: ["PORTS_DIRECTORY": folder.path])
        _ = try runtime.nameServer.waitForPort(forName: "service", before: .patience)
        return child
    }
}

/// Counts the calls of a cancellation handler.
final class Ends: Sendable {
    private let errors = Shared<[XPCRichError]>([])
    private let first = Latch()

    var handler: SessionState.CancellationHandler {
        { error in
            self.errors.withLock { $0.append(error) }
            self.first.open()
        }
    }

    var all: [XPCRichError] { errors.withLock { $0 } }

    /// Waits for the first call.
    func wait() -> XPCRichError? { first.wait(until: .patience) ? all.first : nil }

    /// Waits for the first call, which is not expected.
    func wait(for time: Duration) -> XPCRichError? { first.wait(until: .now + time) ? all.first : nil }
}
