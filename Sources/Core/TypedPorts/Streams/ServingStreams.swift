import Ports

extension RequestServer {
    /// Sets the handler for the requests of a type, which answers with the elements of a sequence. A slow asker slows
    /// the sequence down, because only a few batches of elements wait. The handler's task is cancelled when the asker
    /// ends or stops iterating. An error of the handler or the sequence reaches the asker after all earlier elements.
    /// The request is in progress until its asker has taken all elements, or is gone.
    public func handle<R: PortStreamRequest, Elements: AsyncSequence & Sendable>(
        _ type: R.Type = R.self, in lane: RequestLane? = nil,
        _ handler: @escaping @Sendable (R) async throws -> Elements
    ) where Elements.Element == R.Element {
        addStream(type, in: lane, takesNetwork: R.self is any NetworkRequest.Type) { request, _ in
            try await handler(request)
        }
    }

    /// Sets a handler that gets also the message port's request, which tells the sender, and answers with the elements
    /// of a sequence.
    public func handle<R: PortStreamRequest, Elements: AsyncSequence & Sendable>(
        _ type: R.Type = R.self, in lane: RequestLane? = nil,
        _ handler: @escaping @Sendable (R, MessagePortRequest) async throws -> Elements
    ) where Elements.Element == R.Element { addStream(type, in: lane, takesNetwork: false, handler) }

    /// Sets a handler that also gets the place that the request came from, and answers with the elements of a sequence. A
    /// handler that gets a `MessagePortRequest` in its place takes no requests from other machines.
    @_disfavoredOverload
    public func handle<R: PortStreamRequest & NetworkRequest, Elements: AsyncSequence & Sendable>(
        _ type: R.Type = R.self, in lane: RequestLane? = nil,
        _ handler: @escaping @Sendable (R, RequestOrigin) async throws -> Elements
    ) where Elements.Element == R.Element {
        let networkID = R.known.networkID
        addStream(type, in: lane, takesNetwork: true) { request, message in
            try await handler(request, RequestOrigin(message, networkID: networkID, isStream: true))
        }
    }

    private func addStream<R: PortStreamRequest, Elements: AsyncSequence & Sendable>(
        _ type: R.Type, in lane: RequestLane?, takesNetwork: Bool,
        _ handler: @escaping @Sendable (R, MessagePortRequest) async throws -> Elements
    ) where Elements.Element == R.Element {
        let coder = coder
        add(type, in: lane, isStream: true, takesNetwork: takesNetwork) { request, message in
            // The port for the elements is the last component, after the attachments of the request.
            guard case .port(let right)? = message.message.components.last else {
                throw RequestFailure("the request for a stream has no port to send to")
            }
            let reader = StreamReader(right: right, request: message)
            // A batch without elements tells the asker that the server has taken the request.
            try await reader.send(StreamBatch().message)
            var failure: (any Error)?
            do {
                try await StreamWriter(to: reader, coder).send(all: try await handler(request, message))
            } catch let error as StreamWriter.SendFailed {
                throw error.reason
            } catch {
                failure = error
            }
            // A failure is sent in the stream as well, after the elements, because the reply takes another way.
            try await reader.send(StreamMessage.last(failure.map { R.sentError($0, coder) }))
            // A reply sent now could overtake the elements, and nobody would notice the end of a server that still has
            // some of them.
            await reader.isDone()
            if let failure { throw failure }
            return MachPort.Message(id: StreamMessage.end.rawValue)
        }
    }
}

extension RequestServer {
    /// Hands the request for a stream from another machine to its handler, and returns when the handler has begun.
    /// - Throws: What an asker on this machine gets.
    package nonisolated(nonsending) func stream(
        _ message: MachPort.Message, before deadline: ContinuousClock.Instant
    ) async throws -> any StreamSource {
        try await StreamReading(of: RemoteMessagePort(sendRight), message, before: deadline)
    }
}

/// The reader of a stream, as its server sees it.
struct StreamReader: Sendable {
    let right: MachPort.SendRight
    let request: MessagePortRequest

    /// - Throws: `PortError`; `CancellationError` also when the reader is gone, because then no handler has failed.
    nonisolated(nonsending) func send(_ message: MachPort.Message) async throws {
        do {
            try await right.send(message)
        } catch {
            throw request.isCancelled || !right.isValid ? CancellationError() : error
        }
    }

    /// Waits until the reader releases its port, because it has taken all elements or is gone, or the task is
    /// cancelled.
    nonisolated(nonsending) func isDone() async {
        let (ends, continuation) = AsyncStream.makeStream(of: Void.self)
        let watch = InvalidationWatch(right) { continuation.finish() }
        defer { watch.cancel() }
        for await _ in ends {}
    }
}
