import PortsMetrics
import TypedPorts

struct Resize: PortRequest {
    typealias Reply = EmptyReply
    enum Failure: Error, Codable { case noSuchImage }
    var image: String
}

func serveImages() async throws {
    let server = try RequestServer(name: "com.example.images")
    server.measure()
    server.handle(Resize.self) { resize in
        guard resize.image == "cat" else { throw Resize.Failure.noSuchImage }
        return EmptyReply()
    }
    try await server.run()
}

func resizeCat() async throws {
    let images = RequestClient("com.example.images").measured()
    _ = try await images.request(Resize(image: "cat"))
}
