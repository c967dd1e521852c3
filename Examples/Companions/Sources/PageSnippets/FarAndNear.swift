import NATSPorts
import TypedPorts

struct WhoAsks: PortRequest, NetworkRequest {
    typealias Reply = String
}

func serveBoth(_ nats: NATSConnection) async throws {
    let server = try RequestServer(name: "com.example.who")
    try server.serve(on: nats)
    server.handle(WhoAsks.self) { (_: WhoAsks, origin: RequestOrigin) in
        switch origin {
        case .local(let request): "process \(request.message.sender?.pid ?? 0) of this machine"
        case .network(let sender): "\(sender)"
        }
    }
    try await server.run()
}

func askNearFirst(_ nats: NATSConnection) async throws {
    let who = try RequestClient("com.example.who", on: nats, localFirst: .shared)
    print(try await who.request(WhoAsks()))
}
