import Ports
import RunLoops
import TypedPorts

/// NATS's service API, by which `nats service` and `portctl` find servers.
enum ServiceAPI {
    /// The name of a service or of a request, as the API allows it: ASCII letters, digits, `_` and `-`.
    static func name(_ name: String) -> String {
        let isAllowed: (Character) -> Bool = { $0.isASCII && ($0.isLetter || $0.isNumber) || $0 == "_" || $0 == "-" }
        return name.isEmpty ? "_" : String(name.map { isAllowed($0) ? $0 : "_" })
    }
}

/// The requests of an endpoint that have no outcome yet. The API leaves this part to the service.
struct EndpointData: Codable {
    let count: Int
    /// Nanoseconds since the oldest was taken; nil for none.
    let oldest: Int64?

    enum CodingKeys: String, CodingKey {
        case count = "requests_in_progress"
        case oldest = "oldest_request"
    }

    init(_ requests: [ForeignRequest]) {
        count = requests.count
        oldest = requests.map { $0.since.duration(to: .now).nanoseconds }.max()
    }
}

extension Duration {
    var nanoseconds: Int64 { components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000 }
}
