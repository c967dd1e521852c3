import Ports
import RunLoopLocks

extension RequestClient {
    /// The elements of the reply to a request. The request is sent when the first element is asked for, by each iterator
    /// anew.
    /// - Parameters:
    ///   - request: What the server's handler gets.
    ///   - timeout: How long the server may take to begin. A client of a name waits for a port of the name in this time.
    public func stream<R: PortStreamRequest>(_ request: R, timeout: Duration = .seconds(10)) -> ReplyStream<R> {
        ReplyStream(client: self, request: request, timeout: timeout)
    }
}

/// The elements of a reply. See ``RequestClient/stream(_:timeout:)``.
///
/// An element is decoded when the task asks for it, so a slow task slows the server down. The end of the iteration
/// cancels the server's handler. What a handler throws comes behind all elements. Elements may be missing before the error
/// that tells the end of a server.
public struct ReplyStream<R: PortStreamRequest>: AsyncSequence, Sendable {
    /// What the server sends again and again.
    public typealias Element = R.Element

    fileprivate let client: RequestClient
    fileprivate let request: R
    fileprivate let timeout: Duration

    /// Makes an iterator, which has not asked yet.
    public func makeAsyncIterator() -> Iterator { Iterator(stream: self) }

    /// Takes the elements.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let stream: ReplyStream
        private var reading: StreamReading?
        private var batch: ReceivedBatch<R.Element>?
        private var isOver = false
        private var trace: (any AskedRequestTrace)?

        fileprivate init(stream: ReplyStream) { self.stream = stream }

        /// Suspends until there is an element; nil after the last.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async throws -> R.Element? {
            let (client, coder) = (stream.client, stream.client.coder)
            do {
                while !isOver {
                    if let element = try batch?.popFirst(coder) { return element }
                    if reading == nil { trace = client.trace(R.known) }
                    let reading = if let reading { reading } else { try await StreamReading(stream, trace) }
                    self.reading = reading
                    batch = try await reading.nextMessage().map { ReceivedBatch($0) }
                    isOver = batch == nil
                }
            } catch {
                (isOver, reading, batch) = (true, nil, nil)
                let failure = client.failure(of: R.self, error)
                trace?.end(.failure(failure))
                throw failure
            }
            reading = nil
            trace?.end(.success(nil))
            return nil
        }
    }
}

/// A request for a stream, and the port for its elements. The release ends both.
private final class StreamReading: Sendable {
    /// The queue limit in batches, of the server and of this process each.
    private static let queueLimit = 8

    private let port: MachPort
    private let server: RemoteMessagePort
    private let failure: Failure
    private let asking: Task<Void, Never>

    /// Why no more messages come. Those that have come are taken first.
    private final class Failure: Sendable {
        let error = Lock<(any Error)?>(nil)
    }

    /// Returns when the server has begun.
    init<R: PortStreamRequest>(_ stream: ReplyStream<R>, _ trace: (any AskedRequestTrace)?) async throws {
        let (client, deadline) = (stream.client, ContinuousClock.now + stream.timeout)
        let remote = try await client.port(before: deadline)
        let port = try remote.makePort(queueLimit: Self.queueLimit)
        var message = try client.message(R.messageID, stream.request, trace)
        message.components.append(.port(port.sendRight))
        let failure = Failure()
        let server = remote
        self.port = port
        self.failure = failure
        self.server = server
        asking = Task { [message, right = port.sendRight] in
            guard let error = await Self.failure(of: message, client, server) else { return }
            failure.error.withLock { $0 = error }
            try? await right.send(MachPort.Message(id: StreamMessage.requestFailed.rawValue))
        }
        // The first message has no elements.
        do {
            _ = try await nextMessage(before: deadline)
        } catch PortError.receiveTimedOut {
            throw PortError.receiveTimedOut(port: server.identity)
        }
    }

    /// Asks for the stream, and waits for its end. The reply follows the stream's own end.
    private static func failure(
        of request: MachPort.Message, _ client: RequestClient, _ server: RemoteMessagePort
    ) async -> (any Error)? {
        do {
            let reply = try await client.ask(request, .seconds(1 << 40), false)
            if reply.id == StreamMessage.end.rawValue { return nil }
            return PortError.failed(port: server.identity, RequestFailure("the server replied, and sent no stream"))
        } catch {
            return error
        }
    }

    deinit {
        asking.cancel()
        port.invalidate()
    }

    /// The next elements; nil after the end.
    nonisolated(nonsending) func nextMessage(
        before deadline: ContinuousClock.Instant? = nil
    ) async throws -> MachPort.Message? {
        // The news of a failure may have overtaken elements.
        let error = failure.error.withLock { $0 }
        let message: MachPort.Message
        do {
            message = try await port.receive(before: error == nil ? deadline : .now)
        } catch {
            throw self.failure.error.withLock { $0 } ?? error
        }
        switch StreamMessage(rawValue: message.id) {
        case .elements: return message
        case .end: return nil
        case .failure:
            let bytes = message.components.compactMap { if case .bytes(let bytes) = $0 { bytes } else { nil } }
            throw PortError.failed(port: server.identity, RequestFailure(components: bytes))
        case .requestFailed: return try await nextMessage(before: deadline)
        case nil:
            throw PortError.failed(
                port: server.identity, RequestFailure("the server sent a message that is none of a stream"))
        }
    }
}
