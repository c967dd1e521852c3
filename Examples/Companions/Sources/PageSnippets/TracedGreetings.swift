import PortsTracing
import TypedPorts

struct Greeting: PortRequest {
    typealias Reply = String
    var name: String
}

func serveGreetings() async throws {
    let server = try RequestServer(name: "com.example.greetings")
    server.trace()
    server.handle(Greeting.self) { greeting in "Hello, \(greeting.name)!" }
    try await server.run()
}

func greet() async throws {
    let greetings = RequestClient("com.example.greetings").traced()
    print(try await greetings.request(Greeting(name: "Ada")))
}
