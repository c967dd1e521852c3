import Ports
import RunLoops

// Message ports as the targets of requests.

/// The port that has the name at the time of each request.
extension NamedMessagePort: RequestTarget {
    var serverName: String? { name }
    var text: String { name }

    nonisolated(nonsending) func reply(
        to request: TargetRequest, timeout: Duration, mayRepeat: Bool
    ) async throws -> MachPort.Message {
        try await self.request(request.message, timeout: timeout, mayRepeat: mayRepeat)
    }

    @available(*, noasync)
    func reply(
        to request: TargetRequest, timeout: Duration, mayRepeat: Bool, replyMode: ThreadRunLoop.Mode?
    ) throws -> MachPort.Message {
        try self.request(request.message, timeout: timeout, mayRepeat: mayRepeat, replyMode: replyMode)
    }
}

/// One port. A request that fails is not sent again, because no other port has its place.
extension RemoteMessagePort: RequestTarget {
    var serverName: String? { name }
    var text: String { name ?? sendRight.description }

    nonisolated(nonsending) func reply(
        to request: TargetRequest, timeout: Duration, mayRepeat: Bool
    ) async throws -> MachPort.Message { try await self.request(request.message, timeout: timeout) }

    @available(*, noasync)
    func reply(
        to request: TargetRequest, timeout: Duration, mayRepeat: Bool, replyMode: ThreadRunLoop.Mode?
    ) throws -> MachPort.Message { try self.request(request.message, timeout: timeout, replyMode: replyMode) }
}
