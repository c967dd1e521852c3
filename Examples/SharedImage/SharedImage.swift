import Glibc
import TypedPorts

/// A parent shares an image with its worker, and the worker shares the negative with the parent.
@main struct SharedImage {
    static func main() async throws {
        if CommandLine.arguments.contains("worker") { return try await work() }
        let worker = try await WorkerProcess.launch(.init("/proc/self/exe", ["worker"]))
        let image = try circle(width: 400, height: 180)
        show(image)
        let negative = try await worker.client().request(Invert(image: image), timeout: .seconds(30))
        show(negative)
        worker.send(signal: SIGTERM)
        _ = try await worker.waitForExit(before: .now + .seconds(10))
    }

    /// Paints a light circle, brightest in its middle.
    static func circle(width: Int, height: Int) throws -> Image {
        var draft = try SharedMemory.Draft(byteCount: width * height)
        draft.withMutableBytes { pixels in
            for offset in 0..<pixels.byteCount {
                let x = Double(offset % width * 2 - width) / Double(width)
                let y = Double(offset / width * 2 - height) / Double(height)
                let light = UInt8(255 * max(0, 1 - x * x - y * y))
                pixels.storeBytes(of: light, toByteOffset: offset, as: UInt8.self)
            }
        }
        return Image(width: width, pixels: try draft.freeze())
    }

    /// Prints a character for each 10 by 20 pixels.
    static func show(_ image: Image) {
        let shades = Array(".,:;=+*#%@")
        image.pixels.withBytes { pixels in
            let height = pixels.byteCount / image.width
            for y in stride(from: 10, to: height, by: 20) {
                let line = stride(from: 5, to: image.width, by: 10).map { x in
                    let pixel = pixels.unsafeLoad(fromByteOffset: y * image.width + x, as: UInt8.self)
                    return shades[Int(pixel) * shades.count / 256]
                }
                print(String(line))
            }
        }
    }
}
