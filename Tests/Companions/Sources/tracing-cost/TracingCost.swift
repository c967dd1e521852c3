import Glibc
import PortsTracing
import Tracing
import TypedPorts

/// Measures what tracing adds to a typed request between two processes: requests without and with spans, in turns.
///
///     swift run -c release --package-path Tests/Companions tracing-cost
@main
struct TracingCost {
    private enum Kind: String, CaseIterable {
        case plain, unrecorded, recorded

        /// Of two processes at a time.
        func name(_ server: pid_t) -> String { "com.example.\(rawValue) \(server)" }

        var tracer: SpanlessTracer? { self == .plain ? nil : SpanlessTracer(isRecording: self == .recorded) }
    }

    private struct Echo: PortRequest {
        typealias Reply = String
        var text: String
    }

    static func main() async throws {
        if CommandLine.arguments.contains("serve") { return try await serve() }
        var server: pid_t = 0
        var arguments = [strdup("tracing-cost"), strdup("serve"), nil]
        guard posix_spawn(&server, "/proc/self/exe", nil, nil, &arguments, environ) == 0 else { return perror("spawn") }
        defer { kill(server, SIGKILL) }
        let clients = Kind.allCases.map { kind in
            let client = RequestClient(kind.name(server))
            return kind.tracer.map { client.traced(by: $0) } ?? client
        }
        for client in clients { _ = try await time(of: 1000, client) }
        var times = clients.map { _ in [Double]() }
        for _ in 0..<100 {
            for (index, client) in clients.enumerated() { times[index].append(try await time(of: 200, client)) }
        }
        for (kind, own) in zip(Kind.allCases, times) {
            let ratio = median(zip(own, times[0]).map { $0 / $1 })
            print("\(kind.rawValue): median \(rounded(median(own))) µs, \(rounded(ratio)) of plain ones")
        }
    }

    private static func serve() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for kind in Kind.allCases {
                let server = try RequestServer(name: kind.name(getpid()))
                if let tracer = kind.tracer { server.trace(by: tracer) }
                server.handle(Echo.self) { $0.text }
                group.addTask { try await server.run() }
            }
            try await group.waitForAll()
        }
    }

    /// The microseconds of a request.
    private static func time(of count: Int, _ client: RequestClient) async throws -> Double {
        let start = ContinuousClock.now
        for _ in 0..<count { _ = try await client.request(Echo(text: "hello")) }
        return (ContinuousClock.now - start) / .microseconds(1) / Double(count)
    }

    private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
    private static func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }
}
