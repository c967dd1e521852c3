import Activation

struct Greet: PortRequest {
    typealias Reply = String
    var name: String
}

/// The service. It does not know whether somebody has started it by hand, or the activator for a request.
struct Greeter: ServiceProgram {
    static let serviceName = "com.example.greeter"

    static func serve(_ server: RequestServer) {
        server.handle(Greet.self) { "Hello, \($0.name)!" }
    }
}
