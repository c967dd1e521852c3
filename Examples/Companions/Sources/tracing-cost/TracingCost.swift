import Glibc
import PortsTracing
import Tracing
import TypedPorts

/// Measures what tracing adds to a typed request between two processes: requests without and with spans, in turns, and
/// the part of it that the tracer takes by itself.
///
///     swift run -c release --package-path Examples/Companions tracing-cost
@main
struct TracingCost {
    private enum Kind: String, CaseIterable {
        case plain, noOp = "no-op", unrecorded, recorded, global

        /// Of two processes at a time.
        func name(_ server: pid_t) -> String { "com.example.\(rawValue) \(server)" }

        /// What clients and servers are given. The global tracer does not record.
        var given: (any Tracer)? { self == .global ? nil : tracer }

        var tracer: (any Tracer)? {
            switch self {
            case .plain: nil
            case .noOp: NoOpTracer()
            case .unrecorded, .recorded, .global: SpanlessTracer(isRecording: self == .recorded)
            }
        }
    }

    private struct Echo: PortRequest {
        typealias Reply = String
        var text: String
    }

    static func main() async throws {
        InstrumentationSystem.bootstrap(SpanlessTracer(isRecording: false))
        if CommandLine.arguments.contains("serve") { return try await serve() }
        var server: pid_t = 0
        var arguments = [strdup("tracing-cost"), strdup("serve"), nil]
        guard posix_spawn(&server, "/proc/self/exe", nil, nil, &arguments, environ) == 0 else { return perror("spawn") }
        defer { kill(server, SIGKILL) }
        let clients = Kind.allCases.map { kind in
            let client = RequestClient(kind.name(server))
            return kind == .plain ? client : client.traced(by: kind.given)
        }
        for client in clients { _ = try await time(of: 1000, client) }
        var times = clients.map { _ in [Double]() }
        var tracersTimes = times
        for _ in 0..<100 {
            for index in clients.indices.shuffled() {
                times[index].append(try await time(of: 200, clients[index]))
                if let tracer = Kind.allCases[index].tracer { tracersTimes[index].append(time(of: 200, tracer)) }
            }
        }
        print("plain: \(rounded(median(times[0]))) µs")
        for (index, kind) in Kind.allCases.enumerated().dropFirst() {
            let added = median(zip(times[index], times[0]).map { $0 - $1 })
            let percent = 100 * (median(zip(times[index], times[0]).map { $0 / $1 }) - 1)
            let tracers = rounded(median(tracersTimes[index]))
            print(
                "\(kind.rawValue): \(rounded(percent)) % (\(rounded(added)) µs) more; the tracer by itself \(tracers) µs"
            )
        }
    }

    private static func serve() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for kind in Kind.allCases {
                let server = try RequestServer(name: kind.name(getpid()))
                if kind != .plain { server.trace(by: kind.given) }
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
        return microseconds(since: start) / Double(count)
    }

    /// The microseconds of what a tracer does for a request on both sides, without ports.
    private static func time(of count: Int, _ tracer: any Tracer) -> Double {
        let start = ContinuousClock.now
        for _ in 0..<count {
            var (sent, context): (String?, _) = (nil, ServiceContext.topLevel)
            let asker = tracer.startAnySpan("echo", context: .topLevel, ofKind: .client)
            tracer.inject(asker.context, into: &sent, using: OneText())
            tracer.extract(sent, into: &context, using: OneText())
            let handler = tracer.startAnySpan("echo", context: context, ofKind: .server)
            handler.end()
            asker.end()
        }
        return microseconds(since: start) / Double(count)
    }

    private struct OneText: Injector, Extractor {
        func inject(_ value: String, forKey key: String, into text: inout String?) { text = value }
        func extract(key: String, from text: String?) -> String? { text }
    }

    private static func microseconds(since start: ContinuousClock.Instant) -> Double {
        (ContinuousClock.now - start) / .microseconds(1)
    }

    private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
    private static func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }
}
