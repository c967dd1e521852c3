#if CommandLine
    import ArgumentParser
    import NATSPorts
    import Ports

    // What list, request and ping do with the servers on NATS.

    extension List {
        func show(_ connection: NATSConnection) throws {
            let services = try awaited { try await connection.services() }
            if output.isJSON { return print(json: services.map(FarReport.init)) }
            guard !services.isEmpty else { return report("no server has answered on \(connection)") }
            let rows = services.flatMap { service -> [[String]] in
                let requests = service.requests.isEmpty ? [nil] : service.requests.map { Optional($0) }
                return requests.map { request in
                    let facts = request.map {
                        [
                            $0.name.escaped, "\($0.count)", "\($0.errorCount)", milliseconds($0.averageTime),
                            "\($0.inProgress)", $0.oldest.map(readable) ?? "-",
                        ]
                    }
                    return [service.name.escaped, service.id.escaped] + (facts ?? [String](repeating: "-", count: 6))
                }
            }
            print(
                Table(
                    rows: [["NAME", "SERVER", "REQUEST", "TAKEN", "ERRORS", "MS", "RUNNING", "OLDEST"]] + rows,
                    whole: 2...7))
        }
    }

    /// A server in JSON.
    private struct FarReport: Encodable {
        struct Request: Encodable {
            let name: String
            let count: Int
            let errorCount: Int
            let lastError: String?
            let averageMilliseconds: Duration
            let inProgress: Int
            let oldestMilliseconds: Duration?
        }

        let name: String
        let id: String
        let version: String
        let requests: [Request]

        init(_ service: NATSService) {
            (name, id, version) = (service.name, service.id, service.version)
            requests = service.requests.map {
                Request(
                    name: $0.name, count: $0.count, errorCount: $0.errorCount, lastError: $0.lastError,
                    averageMilliseconds: $0.averageTime, inProgress: $0.inProgress, oldestMilliseconds: $0.oldest)
            }
        }
    }

    extension Request {
        func reply(by connection: NATSConnection) throws -> [UInt8]? {
            let bytes = try message.bytes(upTo: connection.messageLimit, for: port.name)
            return try awaited { [id = message.id, name = port.name, time = timeout.duration] in
                try await connection.request(name, id: id, bytes, timeout: time)
            }
        }
    }

    extension Ping {
        /// - Throws: `PortError`.
        func time(by connection: NATSConnection) throws -> Duration {
            try awaited { [name = port.name, time = timeout.duration] in
                try await connection.ping(name, timeout: time)
            }
        }
    }
#endif
