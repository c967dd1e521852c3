import Ports
import ServiceLifecycle

struct EchoService: Service {
    func run() async throws {
        let server = try LocalMessagePort(name: "com.example.echo")
        try await withGracefulShutdownHandler {
            try await server.serve { request in try await answer(request) }
        } onGracefulShutdown: {
            Task { await server.finish(before: .now + .seconds(10)) }
        }
    }
}
