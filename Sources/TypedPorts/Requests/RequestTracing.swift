import Ports

// What the module PortsTracing adds to requests. Without it, nobody is asked and nothing is added.

/// Follows requests from their askers to their handlers.
package protocol RequestTracing: AnyObject, Sendable {
    /// A request is about to be sent.
    func asking(_ request: KnownRequest, of service: String) -> any AskedRequestTrace

    /// Calls the handler of a request. What the asker's trace has sent is the message's last component; in a stream's
    /// request the last but one, before the port for the elements.
    func handling(
        _ request: KnownRequest, of service: String, _ message: MessagePortRequest, isStream: Bool,
        _ handler: @Sendable (MessagePortRequest) async throws -> MachPort.Message
    ) async throws -> MachPort.Message
}

/// The trace of a request from before it is sent until its end. The release ends it, too.
package protocol AskedRequestTrace: AnyObject, Sendable {
    /// What travels with the request.
    var context: [UInt8]? { get }

    /// Ends the trace, unless it has ended.
    func end(_ outcome: Result<MachPort.Message?, any Error>)
}

/// The trace of the stream's request that a task handles. An object, because the optimizer of Swift 6.3 spoils a task-local closure.
package final class HandledRequestTrace: Sendable {
    @TaskLocal package static var current: HandledRequestTrace?

    /// Told of the error that ends a stream, which its handler does not throw.
    let noteError: @Sendable (any Error) -> Void

    package init(noteError: @escaping @Sendable (any Error) -> Void) { self.noteError = noteError }
}

/// A request of a client until its reply.
struct AskedRequest<R: PortRequest> {
    let message: MachPort.Message
    private let client: RequestClient
    private let trace: (any AskedRequestTrace)?

    init(_ request: R, of client: RequestClient) throws {
        self.client = client
        let known = R.known
        trace = client.trace(known)
        do {
            message = try client.message(known.id, request, trace)
        } catch {
            trace?.end(.failure(error))
            throw error
        }
    }

    func value(of reply: MachPort.Message) throws -> R.Reply {
        let value = try client.coder.decode(R.Reply.self, from: reply)
        trace?.end(.success(reply))
        return value
    }

    /// What the request throws for an error.
    func failure(_ error: any Error) -> any Error {
        let failure = client.failure(of: R.self, error)
        trace?.end(.failure(failure))
        return failure
    }
}

extension RequestClient {
    func trace(_ request: KnownRequest) -> (any AskedRequestTrace)? { tracing?.asking(request, of: serviceName) }

    /// The message of a request, with its trace's context behind the attachments.
    func message(
        _ id: UInt32, _ request: some NamedRequest, _ trace: (any AskedRequestTrace)?
    ) throws -> MachPort.Message {
        var message = try coder.message(id: id, request)
        if let context = trace?.context { message.components.append(.bytes(context)) }
        return message
    }
}
