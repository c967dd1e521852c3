import TypedPorts

let serviceName = "com.example.loadd.typed"

/// Asks for the latest sample; nil before the first.
struct Latest: PortRequest {
    typealias Reply = Double?
}

/// Asks for the samples to come.
struct Samples: PortStreamRequest {
    typealias Element = Double
}
