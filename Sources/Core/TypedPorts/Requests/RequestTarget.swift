import Ports
import RunLoops

/// The servers that a client asks: what requests and streams need of a transport. Message ports are the first
/// implementation. Servers on other machines are a ``NetworkTarget``.
protocol RequestTarget: Sendable {
    /// The server's name; nil for a port without one.
    var serverName: String? { get }

    /// The server in texts.
    var text: String { get }

    /// Asks, and returns the reply. The cancellation of the task cancels the handler.
    /// - Throws: `PortError`, `CancellationError`, or an error of the transport.
    nonisolated(nonsending) func reply(
        to request: TargetRequest, timeout: Duration, mayRepeat: Bool
    ) async throws -> MachPort.Message

    /// Asks, and blocks until the reply, while the thread's loop runs in a mode.
    /// - Throws: `PortError`, or an error of the transport.
    @available(*, noasync)
    func reply(
        to request: TargetRequest, timeout: Duration, mayRepeat: Bool, replyMode: ThreadRunLoop.Mode?
    ) throws -> MachPort.Message

    /// Asks for a stream, and returns when its server has begun.
    /// - Throws: `PortError`, `CancellationError`, or an error of the transport.
    nonisolated(nonsending) func stream(
        for request: TargetRequest, before deadline: ContinuousClock.Instant
    ) async throws -> any StreamSource
}

/// A request on its way to a target.
struct TargetRequest: Sendable {
    let message: MachPort.Message
    /// The request's type, which says whether the request may leave the machine.
    let type: any NamedRequest.Type
    let observer: (any AskedRequestObserver)?
}
