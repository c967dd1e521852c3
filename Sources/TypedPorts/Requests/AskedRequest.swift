import Ports

/// A request of a client until its reply.
struct AskedRequest<R: PortRequest> {
    let message: MachPort.Message
    private let client: RequestClient
    let observer: (any AskedRequestObserver)?

    init(_ request: R, of client: RequestClient) throws {
        self.client = client
        let known = R.known
        observer = client.observer(of: known)
        do {
            message = try client.message(known.id, request, observer)
        } catch {
            observer?.end(.failure(error))
            throw error
        }
    }

    func value(of reply: MachPort.Message) throws -> R.Reply {
        let value = try client.coder.decode(R.Reply.self, from: reply)
        observer?.end(.success(reply))
        return value
    }

    /// The error that the request throws in place of this one.
    func failure(_ error: any Error) -> any Error {
        let failure = client.failure(of: R.self, error)
        observer?.end(.failure(failure))
        return failure
    }
}

extension RequestClient {
    func observer(of request: KnownRequest) -> (any AskedRequestObserver)? {
        observers.asking(request, of: target.name)
    }

    /// The message of a request, with its observer's context behind the attachments.
    func message(
        _ id: UInt32, _ request: some NamedRequest, _ observer: (any AskedRequestObserver)?
    ) throws -> MachPort.Message {
        var message = try coder.message(id: id, request)
        if let context = observer?.context { message.components.append(.bytes(context)) }
        return message
    }
}
