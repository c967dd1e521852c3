import Ports

// The seam for transports between machines, on the side of clients. The module NATSPorts has one.

/// A way to the servers of one name on other machines.
package protocol RequestRoute: AnyObject, Sendable {
    /// The service in texts and errors.
    var service: PortIdentity { get }

    /// The protocol of the network, for logs, traces and metrics.
    var networkProtocol: String { get }

    /// Sends a request, and returns the reply. The cancellation of the task cancels the handler.
    /// - Throws: `PortError`, `CancellationError`, or an error of the network.
    nonisolated(nonsending) func request(
        _ message: MachPort.Message, timeout: Duration, mayRepeat: Bool
    ) async throws -> MachPort.Message

    /// Asks for a stream, and returns when its server has begun.
    /// - Throws: `PortError`, `CancellationError`, or an error of the network.
    nonisolated(nonsending) func stream(
        _ message: MachPort.Message, before deadline: ContinuousClock.Instant
    ) async throws -> any StreamSource
}

/// The messages of a stream. The release gives the rest of the stream up.
package protocol StreamSource: AnyObject, Sendable {
    /// The next elements; nil after the end.
    /// - Throws: ``StreamTimedOut`` at the deadline; the error that ends the stream; `CancellationError`.
    nonisolated(nonsending) func nextMessage(
        before deadline: ContinuousClock.Instant?
    ) async throws -> MachPort.Message?
}

/// No message of a stream has come before the deadline.
package struct StreamTimedOut: Error {
    package init() {}
}
