import Ports

/// A request of a client until its reply.
struct AskedRequest<R: PortRequest> {
    let request: TargetRequest
    private let client: RequestClient

    init(_ request: R, of client: RequestClient) throws {
        self.client = client
        let known = R.known
        let observer = client.observer(of: known)
        do {
            self.request = try client.targetRequest(request, known.id, observer)
        } catch {
            observer?.end(.failure(error))
            throw error
        }
    }

    func value(of reply: MachPort.Message) throws -> R.Reply {
        let value = try client.coder.decode(R.Reply.self, from: reply)
        request.observer?.end(.success(reply))
        return value
    }

    /// The error that the request throws in place of this one.
    func failure(_ error: any Error) -> any Error {
        let failure = client.failure(of: R.self, error)
        request.observer?.end(.failure(failure))
        return failure
    }
}

extension RequestClient {
    func observer(of request: KnownRequest) -> (any AskedRequestObserver)? {
        observers.asking(request, of: target.serverName)
    }

    /// The request with its observer's context behind the attachments.
    func targetRequest<R: NamedRequest>(
        _ request: R, _ id: UInt32, _ observer: (any AskedRequestObserver)?
    ) throws -> TargetRequest {
        var message = try coder.message(id: id, request)
        if let context = observer?.context { message.components.append(.bytes(context)) }
        return TargetRequest(message: message, type: R.self, observer: observer)
    }
}
