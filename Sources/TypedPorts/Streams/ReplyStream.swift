import Ports
import RunLoopLocks

extension RequestClient {
    /// The elements of the reply to a request. Each iterator sends the request when it is asked for its
    /// first element.
    /// - Parameters:
    ///   - request: The request that the server's handler gets.
    ///   - timeout: How long the server may take to begin. A client of a name waits for a port of the name in this
    ///     time.
    ///   - idleTimeout: How long the iterator waits for an element of a stream that has begun, before it throws
    ///     ``StreamIdleTimeout``; nil for as long as the server lives. The time between two elements that the program
    ///     asks for does not count.
    public func stream<R: PortStreamRequest>(
        _ request: R, timeout: Duration = .seconds(10), idleTimeout: Duration? = nil
    ) -> ReplyStream<R> {
        ReplyStream(client: self, request: request, timeout: timeout, idleTimeout: idleTimeout)
    }
}

/// A stream's server has sent no element in time. See ``RequestClient/stream(_:timeout:idleTimeout:)``.
public struct StreamIdleTimeout: Error, Hashable, CustomStringConvertible {
    /// The name of the stream's request.
    public let request: String
    /// The name of the server's port, or the port.
    public let service: String
    /// How long the reader has waited.
    public let timeout: Duration

    /// A sentence that names the stream and the remedy.
    public var description: String {
        "the stream \(request) of \(service) sent no element for \(timeout): its handler hangs, or its elements come "
            + "further apart: then ask with a longer idleTimeout"
    }
}

/// The elements of a reply. See ``RequestClient/stream(_:timeout:idleTimeout:)``.
///
/// An element is decoded when the task asks for it, so a slow task slows the server down. The end of the iteration
/// cancels the server's handler. The error that a handler throws comes after all elements. A stream ends with nil only
/// after all its elements. When the server ends first, the iterator throws `PortError.becameInvalid`, and the last
/// elements may be missing.
public struct ReplyStream<R: PortStreamRequest>: AsyncSequence, Sendable {
    fileprivate let client: RequestClient
    fileprivate let request: R
    fileprivate let timeout: Duration
    fileprivate let idleTimeout: Duration?

    /// Makes an iterator, which has not sent the request yet.
    public func makeAsyncIterator() -> Iterator { Iterator(stream: self) }

    /// Takes the elements.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let stream: ReplyStream
        private var reading: (any StreamSource)?
        private var batch: ReceivedBatch<R.Element>?
        private var isOver = false
        private var observer: (any AskedRequestObserver)?

        fileprivate init(stream: ReplyStream) { self.stream = stream }

        /// Suspends until there is an element; nil after the last.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async throws -> R.Element? {
            if batch?.hasReady == true { return batch?.popReady() }
            return try await nextOfBatch()
        }

        /// The first element that is not decoded yet. Apart from ``next(isolation:)``, because what this function needs
        /// in its task's frame takes longer than an element that is decoded.
        private nonisolated(nonsending) mutating func nextOfBatch() async throws -> R.Element? {
            let (client, coder) = (stream.client, stream.client.coder)
            var deadline: ContinuousClock.Instant?
            do {
                while !isOver {
                    if let element = try batch?.popFirst(coder) { return element }
                    if reading == nil { observer = client.observer(of: R.known) }
                    let reading = if let reading { reading } else { try await stream.begin(observer) }
                    self.reading = reading
                    // A batch without elements does not extend the wait.
                    if deadline == nil { deadline = stream.idleTimeout.map { .now + $0 } }
                    batch = try await reading.nextMessage(before: deadline).map { ReceivedBatch($0) }
                    isOver = batch == nil
                }
            } catch {
                (isOver, reading, batch) = (true, nil, nil)
                let failure = error is StreamTimedOut ? stream.idleError : client.failure(of: R.self, error)
                observer?.end(.failure(failure))
                throw failure
            }
            reading = nil
            observer?.end(.success(nil))
            return nil
        }
    }

    /// Asks for the stream, and returns when the server has begun.
    private func begin(_ observer: (any AskedRequestObserver)?) async throws -> any StreamSource {
        let deadline = ContinuousClock.now + timeout
        let message = try client.message(R.messageID, request, observer)
        guard let server = try await client.port(before: deadline) else {
            // A client of ports alone always has a port.
            guard let network = client.network else { throw StreamTimedOut() }
            try network.check(R.self)
            observer?.goes(by: network.route.networkProtocol)
            return try await network.route.stream(message, before: deadline)
        }
        return try await StreamReading(of: server, message, before: deadline) { [client] message, server in
            // A client of a name asks the next port when this one has certainly not taken the request.
            if client.network == nil { return try await client.ask(R.self, message, .seconds(1 << 40), false) }
            return try await server.request(message, timeout: .seconds(1 << 40))
        } successor: { [client] in
            try await client.port(before: deadline) ?? server
        }
    }

    private var idleError: any Error {
        StreamIdleTimeout(request: R.knownName, service: client.portName.text, timeout: idleTimeout ?? .zero)
    }
}

/// A request for a stream, and the port for its elements. The release ends both.
///
/// The stream's last message says how the stream ends, and so proves that no element is missing. The server replies to
/// the request only after this side has released the port. When the request ends before the stream, the server has
/// refused it or has ended, and the rest of the stream is on its way or lost.
final class StreamReading: StreamSource {
    /// The queue limit in batches, of the server and of this process each.
    private static let queueLimit = 8

    private let port: MachPort
    private let server: RemoteMessagePort
    private let state: State
    private let asking: Task<Void, Never>

    private final class State: Sendable {
        /// The end of the request; nil before.
        let requestEnd = Lock<RequestEnd?>(nil)
        /// True after the stream's own end.
        let isComplete = Lock(false)
    }

    private enum RequestEnd {
        /// The server has sent all elements.
        case replied
        case failed(any Error)
    }

    /// How long messages may be on their way after the end of their request, while a reader waits.
    private static let (transitAfterReply, transitAfterFailure) = (Duration.seconds(1), Duration.milliseconds(100))

    typealias Ask = @Sendable (MachPort.Message, RemoteMessagePort) async throws -> MachPort.Message

    /// Returns when the server has begun.
    /// - Parameters:
    ///   - message: The request, without the port for the elements.
    ///   - ask: Sends the request, and returns when it has ended.
    ///   - successor: The port that has the server's place after the server's end.
    init(
        of server: RemoteMessagePort, _ message: MachPort.Message, before deadline: ContinuousClock.Instant,
        _ ask: @escaping Ask, successor: @Sendable () async throws -> RemoteMessagePort
    ) async throws {
        let port = try server.makePort(queueLimit: Self.queueLimit)
        var message = message
        message.components.append(.port(port.sendRight))
        let state = State()
        self.port = port
        self.state = state
        self.server = server
        asking = Task { [message, right = port.sendRight] in
            let end = await Self.end(of: message, server, ask)
            state.requestEnd.withLock { $0 = end }
            try? await right.send(MachPort.Message(id: StreamMessage.requestEnded.rawValue))
        }
        // The first message has no elements.
        do {
            _ = try await nextMessage(before: deadline, hasBegun: false)
        } catch is StreamTimedOut {
            // The port may have ended meanwhile. Then the error names the port that now has the name, or says that
            // there is none.
            let server = server.isValid ? server : try await successor()
            throw PortError.receiveTimedOut(port: server.identity)
        }
    }

    /// Asks for the stream, and waits for the end of the request.
    private static func end(
        of request: MachPort.Message, _ server: RemoteMessagePort, _ ask: Ask
    ) async -> RequestEnd {
        do {
            let reply = try await ask(request, server)
            if reply.id == StreamMessage.end.rawValue { return .replied }
            let failure = RequestFailure("the server replied, and sent no stream")
            return .failed(PortError.failed(port: server.identity, failure))
        } catch {
            return .failed(error)
        }
    }

    deinit {
        // The server replies to the request of a complete stream, which so counts as answered.
        if !state.isComplete.withLock({ $0 }) { asking.cancel() }
        port.invalidate()
    }

    nonisolated(nonsending) func nextMessage(
        before deadline: ContinuousClock.Instant?
    ) async throws -> MachPort.Message? { try await nextMessage(before: deadline, hasBegun: true) }

    private nonisolated(nonsending) func nextMessage(
        before deadline: ContinuousClock.Instant?, hasBegun: Bool
    ) async throws -> MachPort.Message? {
        while true {
            let requestEnd = state.requestEnd.withLock { $0 }
            let message: MachPort.Message
            do {
                message = try await port.receive(before: Self.limit(deadline, requestEnd, hasBegun))
            } catch PortError.receiveTimedOut {
                switch requestEnd {
                case .failed(let error): throw error
                case .replied where !server.isValid: throw PortError.becameInvalid(port: server.identity)
                case .replied, nil: if let deadline, deadline <= .now { throw StreamTimedOut() }
                }
                continue
            }
            switch StreamMessage(rawValue: message.id) {
            case .elements: return message
            case .end:
                state.isComplete.withLock { $0 = true }
                return nil
            case .failure:
                state.isComplete.withLock { $0 = true }
                let bytes = message.components.compactMap { if case .bytes(let bytes) = $0 { bytes } else { nil } }
                throw PortError.failed(port: server.identity, RequestFailure(components: bytes))
            case .requestEnded: continue
            case nil:
                throw PortError.failed(
                    port: server.identity, RequestFailure("the server sent a message that is none of a stream"))
            }
        }
    }

    /// The deadline for the next message.
    private static func limit(
        _ deadline: ContinuousClock.Instant?, _ requestEnd: RequestEnd?, _ hasBegun: Bool
    ) -> ContinuousClock.Instant? {
        let limit: ContinuousClock.Instant
        switch requestEnd {
        case nil: return deadline
        case .failed: limit = hasBegun ? .now + transitAfterFailure : .now
        case .replied: limit = .now + transitAfterReply
        }
        return deadline.map { min($0, limit) } ?? limit
    }
}
