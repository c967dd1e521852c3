import Ports

// How requests from other machines reach a server: in the lanes of its port, so that limits and `ping` treat them as all
// others.

/// A transport that takes requests for a server.
package protocol RequestTransport: AnyObject, Sendable {
    /// Takes requests until the task is cancelled. Then those that were taken are cancelled, too.
    /// - Throws: `PortError` when it can take none any more.
    nonisolated(nonsending) func serve(_ server: RequestServer) async throws(PortError)

    /// Takes no more requests, and returns when all that were taken have their outcomes, or at the deadline.
    nonisolated(nonsending) func finish(before deadline: ContinuousClock.Instant?) async

    /// The requests that were taken, and have no outcome yet.
    var requestsInProgress: [ForeignRequest] { get }
}

/// A request of another machine that the server has a handler for.
package struct NetworkHandled: Sendable {
    package let request: KnownRequest
    package let isStream: Bool
}

extension RequestServer {
    /// The requests that other machines may send.
    package var networkRequests: [NetworkHandled] {
        handled.filter(\.isNetwork).map { NetworkHandled(request: $0.request, isStream: $0.isStream) }
    }

    /// The kind of a request from another machine.
    /// - Throws: `RequestFailure` when the server takes no such request.
    package func networkRequest(id: UInt32) throws -> NetworkHandled {
        if let found = handled(under: KnownRequest.networkID(of: id)) {
            return NetworkHandled(request: found.request, isStream: found.isStream)
        }
        if let local = handled(under: id) {
            throw RequestFailure(
                fault:
                    "the server takes no \(local.request.name) from other machines: declare it a NetworkRequest, with a "
                    + "handler that gets no MessagePortRequest")
        }
        throw unknownRequest(id, isNetwork: true)
    }

    /// The message of a request from another machine, for the server's port.
    package func message(
        of request: NetworkHandled, _ components: [[UInt8]], from sender: [UInt8]
    ) -> MachPort.Message {
        MachPort.Message(id: request.request.networkID, components.map { .bytes($0) } + [.bytes(sender)])
    }

    /// Admits a request from another machine to its lane.
    /// - Parameters:
    ///   - message: The request.
    ///   - asker: The sender.
    ///   - turn: Handles the request, by the call of the handler. When the request has to wait for its turn, a task calls
    ///     this closure then.
    ///   - refuse: Called in place of it: with the limit of a full lane, or with nil when the server does not run, or finishes.
    /// - Returns: When it is the request's turn now, the work, for a task of the caller.
    package func admit(
        _ message: MachPort.Message, from asker: NetworkSender,
        turn: @escaping @Sendable (_ handler: @escaping @Sendable () async throws -> MachPort.Message) async -> Void,
        refuse: @escaping @Sendable (Int?) -> Void
    ) -> (@Sendable () async -> Void)? {
        let handler: @Sendable () async throws -> MachPort.Message = {
            do {
                return try await self.answer(MessagePortRequest(message))
            } catch {
                if !(error is CancellationError) { self.port.noteFailure(error, of: message.id, from: "\(asker)") }
                throw error
            }
        }
        return port.admit(message.id, { await turn(handler) }, refuse: refuse)
    }
}
