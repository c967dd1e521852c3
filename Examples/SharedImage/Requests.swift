import TypedPorts

/// Asks the worker for the negative of a gray image.
struct Invert: PortRequest {
    typealias Reply = Image
    var image: Image
}

/// A gray image, a byte for each pixel.
struct Image: Codable, Sendable {
    var width: Int
    var pixels: SharedMemory
}
