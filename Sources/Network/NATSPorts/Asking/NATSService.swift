import FoundationCoding
import Ports
import RunLoopLocks
import RunLoops
import TypedPorts

/// A server of a service, as it describes itself to NATS. See ``NATSConnection/services(named:within:)``.
public struct NATSService: Sendable, Hashable, Codable {
    /// A type of request, and what has become of those that came.
    public struct Request: Sendable, Hashable, Codable {
        /// The name of the type.
        public var name: String
        /// The requests that the server has taken.
        public var count: Int
        /// How many of them were answered with an error.
        public var errorCount: Int
        /// The last of these errors; nil without one.
        public var lastError: String?
        /// From a request's arrival to its reply, on average.
        public var averageTime: Duration
        /// The requests that the server has taken, and not answered yet.
        public var inProgress: Int
        /// The time since the oldest of these was taken; nil for none.
        public var oldest: Duration?
    }

    /// The name of the service.
    public var name: String
    /// The server's own identity, which is another one at each start.
    public var id: String
    /// The version of the library, or of the program.
    public var version: String
    /// The types of request, by their names.
    public var requests: [Request]
}

extension NATSConnection {
    /// Looks for the servers on NATS, also those of other libraries that answer its questions about services.
    /// - Parameters:
    ///   - name: The name of a service; nil for all.
    ///   - time: The time in which servers have to answer. The call lasts until then, unless no server can answer.
    /// - Returns: The servers, by their names.
    /// - Throws: ``NATSError/closed(url:)``, `CancellationError`.
    public nonisolated(nonsending) func services(
        named name: String? = nil, within time: Duration = .milliseconds(500)
    ) async throws -> [NATSService] {
        let subject = name.map { "$SRV.STATS.\(ServiceAPI.name($0))" } ?? "$SRV.STATS"
        let answers = try await answers(to: subject, until: .now + time) { _ in false }
        let found = answers.compactMap { try? ServiceReport($0.bytes).service }
        return found.filter { name == nil || $0.name == name }.sorted { ($0.name, $0.id) < ($1.name, $1.id) }
    }

    /// Asks the servers of a name for a sign of life.
    /// - Returns: The time to the first answer.
    /// - Throws: `PortError`: `nameNotFound`, `receiveTimedOut`; ``NATSError``; `CancellationError`.
    public nonisolated(nonsending) func ping(
        _ name: String, timeout: Duration = .seconds(1)
    ) async throws -> Duration {
        let route = try NATSRoute(name, self)
        let start = ContinuousClock.now
        let subject = "$SRV.PING.\(ServiceAPI.name(name))"
        let answers = try await answers(to: subject, until: start + timeout) { _ in true }
        let time = ContinuousClock.now - start
        guard let first = answers.first else { throw PortError.receiveTimedOut(port: route.service) }
        if first.hasNoResponders { throw route.nobodyServes }
        return time
    }

    /// Sends bytes as a request, as a tool does that knows no type.
    /// - Parameters:
    ///   - name: The name of the servers, of which one gets the request.
    ///   - id: The request's id.
    ///   - bytes: The data; nil for none.
    ///   - timeout: The longest wait for the reply.
    /// - Returns: The reply's data; nil for none.
    /// - Throws: `PortError`, as a client's request; ``NATSError``; `CancellationError`.
    public nonisolated(nonsending) func request(
        _ name: String, id: UInt32, _ bytes: [UInt8]?, timeout: Duration = .seconds(10)
    ) async throws -> [UInt8]? {
        let message = MachPort.Message(id: id, bytes.map { [.bytes($0)] } ?? [])
        let reply = try await NATSRoute(name, self).request(message, timeout: timeout, mayRepeat: false)
        return if case .bytes(let bytes)? = reply.components.first { bytes } else { nil }
    }

    /// Asks a question that any number of others may answer.
    /// - Parameter isLast: Whether an answer ends the wait.
    /// - Returns: The answers; without one, perhaps the word of NATS that nobody gets the question.
    private nonisolated(nonsending) func answers(
        to subject: String, until deadline: ContinuousClock.Instant,
        _ isLast: @escaping @Sendable (Delivery) -> Bool
    ) async throws -> [Delivery] {
        let found = Lock<[Delivery]>([])
        let isDone = OneShot<Void>()
        let inbox = "\(asked.prefix)question.\(randomName())"
        let subscription = try subscribe(inbox) { answer in
            found.withLock { $0.append(answer) }
            if answer.hasNoResponders || isLast(answer) { isDone.set(()) }
        }
        defer { withExtendedLifetime(subscription) {} }
        guard try await isConnected(before: deadline) else { return [] }
        guard case .sent = handle.publish([], to: subject, reply: inbox) else { return [] }
        _ = await isDone.wait(until: deadline)
        try Task.checkCancellation()
        return found.withLock { $0 }
    }
}

/// The answer of a server to NATS's question about its requests.
private struct ServiceReport: Decodable {
    private struct Endpoint: Decodable {
        let name: String
        let metadata: [String: String]?
        let requestCount: Int?
        let errorCount: Int?
        let lastError: String?
        let averageTime: Int64?
        /// Nil also for the data of another library.
        let data: EndpointData?

        enum CodingKeys: String, CodingKey {
            case name, metadata, data
            case requestCount = "num_requests"
            case errorCount = "num_errors"
            case lastError = "last_error"
            case averageTime = "average_processing_time"
        }

        init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            name = try values.decode(String.self, forKey: .name)
            metadata = try values.decodeIfPresent([String: String].self, forKey: .metadata)
            requestCount = try values.decodeIfPresent(Int.self, forKey: .requestCount)
            errorCount = try values.decodeIfPresent(Int.self, forKey: .errorCount)
            lastError = try values.decodeIfPresent(String.self, forKey: .lastError)
            averageTime = try values.decodeIfPresent(Int64.self, forKey: .averageTime)
            data = try? values.decode(EndpointData.self, forKey: .data)
        }
    }

    private let name: String
    private let id: String
    private let version: String
    private let metadata: [String: String]?
    private let endpoints: [Endpoint]?

    init(_ bytes: [UInt8]) throws {
        self = try JSONCoder().decode(Self.self, from: bytes.span.bytes, attachments: Attachments())
    }

    var service: NATSService {
        let requests = (endpoints ?? []).map { endpoint in
            NATSService.Request(
                name: endpoint.metadata?["ports.request"] ?? endpoint.name, count: endpoint.requestCount ?? 0,
                errorCount: endpoint.errorCount ?? 0,
                lastError: endpoint.lastError.flatMap { $0.isEmpty ? nil : $0 },
                averageTime: .nanoseconds(endpoint.averageTime ?? 0), inProgress: endpoint.data?.count ?? 0,
                oldest: endpoint.data?.oldest.map { .nanoseconds($0) })
        }
        return NATSService(
            name: metadata?["ports.name"] ?? name, id: id, version: version,
            requests: requests.sorted { $0.name < $1.name })
    }
}
