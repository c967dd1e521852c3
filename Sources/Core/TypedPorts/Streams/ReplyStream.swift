import Ports

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
        let request = try client.targetRequest(request, R.messageID, observer)
        return try await client.target.stream(for: request, before: deadline)
    }

    private var idleError: any Error {
        StreamIdleTimeout(request: R.knownName, service: client.target.text, timeout: idleTimeout ?? .zero)
    }
}
