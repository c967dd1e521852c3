import NATSPorts
import TypedPorts

struct Lookup: PortRequest, NetworkRequest {
    typealias Reply = String?
    var word: String
}

func serveDictionary() async throws {
    let nats = try await NATSConnection("nats://127.0.0.1:4222")
    let server = try RequestServer(name: "com.example.dictionary", on: nats)
    server.handle(Lookup.self) { lookup in ["port": "where messages arrive"][lookup.word] }
    try await server.run()
}

func lookUp() async throws {
    let nats = try await NATSConnection("nats://127.0.0.1:4222")
    let dictionary = try RequestClient("com.example.dictionary", on: nats)
    print(try await dictionary.request(Lookup(word: "port")) ?? "nobody knows it")
}
