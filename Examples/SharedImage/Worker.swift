import Glibc
import TypedPorts

/// Makes negatives until the parent has ended. The pixels that come and the pixels that go are copied nowhere.
func work() async throws {
    let server = try RequestServer()
    server.handle(Invert.self) { request in
        var negative = try SharedMemory.Draft(byteCount: request.image.pixels.byteCount)
        negative.withMutableBytes { target in
            request.image.pixels.withBytes { source in
                for offset in 0..<source.byteCount {
                    let pixel = source.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
                    target.storeBytes(of: 255 - pixel, toByteOffset: offset, as: UInt8.self)
                }
            }
        }
        return Image(width: request.image.width, pixels: try negative.freeze())
    }
    let parent = try await CheckIn.fromEnvironment().complete(with: server)
    parent.onInvalidation { kill(getpid(), SIGTERM) }
    defer { withExtendedLifetime(parent) {} }
    try await server.run()
}
