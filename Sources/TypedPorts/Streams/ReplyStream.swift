import Ports
import Synchronization

extension RequestClient {
    /// The elements of the reply to a request. The request is sent when the first element is asked for, by each iterator
    /// anew. A client of a name waits for a port of the name then.
    public func stream<R: PortStreamRequest>(_ request: R) -> ReplyStream<R> {
        ReplyStream(client: self, request: request)
    }
}

/// The elements of a reply. See ``RequestClient/stream(_:)``.
///
/// An element is decoded when the task asks for it, so a slow task slows the server down. The end of the iteration, for
/// whatever reason, cancels the server's handler. Throws what `RequestClient.request` throws,
/// after all elements that were sent before an error of the handler; after the death of a server, perhaps after fewer.
public struct ReplyStream<R: PortStreamRequest>: AsyncSequence, Sendable {
    /// What the server sends again and again.
    public typealias Element = R.Element

    fileprivate let client: RequestClient
    fileprivate let request: R

    /// Makes an iterator, which has not asked yet.
    public func makeAsyncIterator() -> Iterator { Iterator(client: client, request: request) }

    /// Takes the elements.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let client: RequestClient
        fileprivate let request: R
        private var reading: StreamReading?
        private var batch: ReceivedBatch<R.Element>?
        private var isOver = false

        fileprivate init(client: RequestClient, request: R) {
            self.client = client
            self.request = request
        }

        /// Suspends until there is an element; nil after the last.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async throws -> R.Element? {
            let coder = client.coder
            while !isOver {
                if let element = try batch?.popFirst(coder) { return element }
                do {
                    let reading = if let reading { reading } else { try await StreamReading(client, request) }
                    self.reading = reading
                    batch = try await reading.nextMessage().map { ReceivedBatch($0) }
                    isOver = batch == nil
                } catch {
                    isOver = true
                    throw client.failure(of: R.self, error)
                }
            }
            reading = nil
            return nil
        }
    }
}

/// A request for a stream, and the port for its elements. The release ends both.
private final class StreamReading: Sendable {
    /// So many batches wait on each side.
    private static let queueLimit = 8

    private let port: MachPort
    private let failure: Failure
    private let asking: Task<Void, Never>

    private final class Failure: Sendable {
        let error = Mutex<(any Error)?>(nil)
    }

    init<R: PortStreamRequest>(_ client: RequestClient, _ request: R) async throws {
        let port = try await client.port().makePort(queueLimit: Self.queueLimit)
        var message = try client.coder.message(id: R.messageID, request)
        message.components.append(.port(port.sendRight))
        let failure = Failure()
        self.port = port
        self.failure = failure
        asking = Task { [message, right = port.sendRight] in
            do {
                // The reply follows the stream's own end.
                _ = try await client.ask(message, .seconds(1 << 40), false)
            } catch {
                failure.error.withLock { $0 = error }
                try? await right.send(MachPort.Message(id: StreamMessage.requestFailed.rawValue))
            }
        }
    }

    deinit {
        asking.cancel()
        port.invalidate()
    }

    /// The next elements; nil after the end.
    nonisolated(nonsending) func nextMessage() async throws -> MachPort.Message? {
        let message = try await port.receive()
        switch StreamMessage(rawValue: message.id) {
        case .elements: return message
        case .end: return nil
        case .failure:
            let bytes = message.components.compactMap { if case .bytes(let bytes) = $0 { bytes } else { nil } }
            throw PortError.failed(port: port.id, RequestFailure(components: bytes))
        case .requestFailed, nil:
            throw failure.error.withLock { $0 } ?? PortError.transport(call: "stream", errno: 71)
        }
    }
}
