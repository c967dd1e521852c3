import TypedPorts

// Both sides know the request, and the type of its reply.
struct Greet: PortRequest {
    typealias Reply = String
    var name: String
}

@main struct Greeter {
    static func main() async throws {
        guard let name = CommandLine.arguments.dropFirst().first else { return try await serve() }
        // The client is any other program of the same user.
        print(try await RequestClient("com.example.greeter").request(Greet(name: name)))
    }

    /// The daemon replies until it is killed.
    static func serve() async throws {
        let server = try RequestServer(name: "com.example.greeter")
        server.handle(Greet.self) { greet in "Hello, \(greet.name)!" }
        try await server.run()
    }
}
