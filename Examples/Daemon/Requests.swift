import TypedPorts

let serviceName = "com.example.greeter"

/// Asks for a greeting.
struct Greet: PortRequest {
    typealias Reply = String
    var name: String
}

/// Asks what the daemon has done.
struct Report: PortRequest {
    struct Reply: Codable {
        /// How often anybody was greeted. The number survives a crash.
        var greetings: Int
        /// How often this process has read its file again.
        var reloads: Int
    }
}
