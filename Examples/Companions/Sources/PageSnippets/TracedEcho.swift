import Ports
import PortsTracing

func serveEcho() async throws {
    let server = try LocalMessagePort(name: "com.example.echo")
    try await server.serveMessages { request in
        request.withSpan("echo") { message in message }
    }
}

func askEcho() async throws {
    let echo = NamedMessagePort("com.example.echo")
    let answer = try await echo.tracedRequest(MachPort.Message(id: 1), operation: "echo")
    print(answer)
}
