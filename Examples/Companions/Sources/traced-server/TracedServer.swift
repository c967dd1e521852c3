import Glibc
import InMemoryTracing
import PortsTracing
import TracedRequests
import TypedPorts

/// Serves under a name until the test ends it.
@main
struct TracedServer {
    static func main() async throws {
        alarm(60)
        let tracer = InMemoryTracer()
        let server = makeServer(try LocalMessagePort(name: CommandLine.arguments[1]), tracer)
        if CommandLine.arguments.count < 3 { server.trace(by: tracer) }
        try await server.run()
    }
}
