import Ports

extension RequestServer {
    /// Has a handler answer the requests of a type with the elements of a sequence. A slow asker slows the sequence
    /// down: no more than some batches of elements wait. An asker that is gone, or iterates no further, cancels the
    /// handler's task. The asker gets what the handler or the sequence throws after all elements before.
    public func handle<R: PortStreamRequest, Elements: AsyncSequence & Sendable>(
        _ type: R.Type = R.self, _ handler: @escaping @Sendable (R) async throws -> Elements
    ) where Elements.Element == R.Element {
        handle(type) { request, _ in try await handler(request) }
    }

    /// As the form without the message port's request, which tells the sender.
    public func handle<R: PortStreamRequest, Elements: AsyncSequence & Sendable>(
        _ type: R.Type = R.self, _ handler: @escaping @Sendable (R, MessagePortRequest) async throws -> Elements
    ) where Elements.Element == R.Element {
        let coder = coder
        add(type, isStream: true) { request, message in
            // The last component, behind the attachments of the request.
            guard case .port(let right)? = message.message.components.last else {
                throw RequestFailure("the request for a stream has no port to send to")
            }
            // No elements: the news that the server has taken the request.
            try await right.send(StreamBatch().message)
            do {
                try await StreamWriter(to: right, coder).send(all: try await handler(request, message))
                try await right.send(MachPort.Message(id: StreamMessage.end.rawValue))
            } catch is StreamWriter.PortFailed {
                // The asker iterates no further, or is gone.
                throw CancellationError()
            } catch let error as R.Failure {
                HandledRequestTrace.current?.noteError(error)
                try await right.send(stream: RequestFailure(error, coder))
            } catch {
                HandledRequestTrace.current?.noteError(error)
                // In the stream, behind the elements: the reply takes another way, and could overtake them.
                try await right.send(stream: error as? RequestFailure ?? RequestFailure(String(describing: error)))
            }
            return MachPort.Message(id: StreamMessage.end.rawValue)
        }
    }
}

extension MachPort.SendRight {
    fileprivate nonisolated(nonsending) func send(stream failure: RequestFailure) async throws {
        try await send(MachPort.Message(id: StreamMessage.failure.rawValue, failure.components.map { .bytes($0) }))
    }
}
