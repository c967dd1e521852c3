import FoundationCoding
import Glibc
import Ports
import RunLoops
import TypedPorts

/// The answers of a server to the questions of NATS's service API, by which `nats service` and `portctl` find it.
struct ServiceDescription: Sendable {
    private let name: String
    private let id: String
    private let subject: String
    private let queue: String
    private let started = Self.time()

    init(_ name: String, _ id: String, subject: String, queue: String) {
        (self.name, self.id, self.subject, self.queue) = (name, id, subject, queue)
    }

    /// The subjects of the questions to this server. Questions about other services are not among them, because NATS
    /// tells an asker at once when nobody gets a question.
    var subjects: [String] {
        let service = "$SRV.*.\(ServiceAPI.name(name))"
        return ["$SRV.*", service, "\(service).\(id)"]
    }

    private struct Endpoint: Encodable {
        let name: String
        let subject: String
        let queueGroup: String
        var metadata: [String: String]?
        var requestCount: Int?
        var errorCount: Int?
        var lastError: String?
        var time: Int64?
        var averageTime: Int64?
        var data: EndpointData?

        enum CodingKeys: String, CodingKey {
            case name, subject, metadata, data
            case queueGroup = "queue_group"
            case requestCount = "num_requests"
            case errorCount = "num_errors"
            case lastError = "last_error"
            case time = "processing_time"
            case averageTime = "average_processing_time"
        }
    }

    private struct Response: Encodable {
        let type: String
        let name: String
        let id: String
        let version: String
        let metadata: [String: String]
        var description: String?
        var started: String?
        var endpoints: [Endpoint]?
    }

    /// - Parameter inProgress: The requests of the server that have no outcome yet.
    /// - Returns: Nil when there is no such question.
    func answer(
        to question: String, _ requests: [KnownRequest], _ statistics: ServiceStatistics,
        inProgress: [ForeignRequest]
    ) -> [UInt8]? {
        let parts = question.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count >= 2 else { return nil }
        var response = Response(
            type: "io.nats.micro.v1.\(parts[1].lowercased())_response", name: ServiceAPI.name(name), id: id,
            version: PortRuntime.packageVersion, metadata: ["ports.name": name])
        switch parts[1] {
        case "PING": break
        case "INFO":
            response.description = "Typed requests of swift-ports"
            response.endpoints = requests.sorted { $0.name < $1.name }.map { endpoint($0) }
        case "STATS":
            response.started = started
            response.endpoints = requests.sorted { $0.name < $1.name }.map { request in
                var endpoint = endpoint(request)
                let counts = statistics.counts(of: request)
                (endpoint.requestCount, endpoint.errorCount) = (counts.requests, counts.errors)
                endpoint.lastError = counts.lastError
                endpoint.time = counts.time.nanoseconds
                endpoint.averageTime = counts.time.nanoseconds / Int64(max(1, counts.requests))
                endpoint.data = EndpointData(inProgress.filter { $0.id == request.id })
                return endpoint
            }
        default: return nil
        }
        var bytes: [UInt8] = []
        var attachments = Attachments()
        try? JSONCoder().encode(response, into: &bytes, attachments: &attachments)
        return bytes
    }

    private func endpoint(_ request: KnownRequest) -> Endpoint {
        Endpoint(
            name: ServiceAPI.name(request.name), subject: subject, queueGroup: queue,
            metadata: ["ports.request": request.name])
    }

    /// The time now, as RFC 3339 has it.
    private static func time() -> String {
        var (now, parts) = (Glibc.time(nil), tm())
        gmtime_r(&now, &parts)
        func digits(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(parts.tm_year + 1900)-\(digits(parts.tm_mon + 1))-\(digits(parts.tm_mday))"
            + "T\(digits(parts.tm_hour)):\(digits(parts.tm_min)):\(digits(parts.tm_sec))Z"
    }
}
