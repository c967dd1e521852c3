import Workers

/// A server whose workers decode pictures. A picture that ends its worker ends nothing else.
@main struct Thumbnails: WorkerProgram {
    /// Each worker does this.
    static func work(_ server: RequestServer) {
        server.handle(Shrink.self) { request in try Picture(shrinking: request.file) }
    }

    /// The server does this.
    static func run() async throws {
        // Without the crash reports of the workers.
        let pool = try WorkerPool(.init("/proc/self/exe", standardError: .discard), count: 2)
        async let running: Void = pool.run()
        await show("sunset.pgm", picture("P5\n64 48\n255\n", pixels: 64 * 48), pool)
        await show("note.txt", Array("no picture".utf8), pool)
        await show("lie.pgm", picture("P5\n100000 100000\n255\n", pixels: 16), pool)
        await show("forest.pgm", picture("P5\n1920 1080\n255\n", pixels: 1920 * 1080), pool)
        await pool.stop()
        try await running
    }

    private static func show(_ name: String, _ file: [UInt8], _ pool: WorkerPool) async {
        do {
            let picture = try await pool.request(Shrink(file: file), timeout: .seconds(30))
            print("\(name): \(picture.width) × \(picture.height) pixels")
        } catch let failure as Shrink.Failure {
            print("\(name): \(failure)")
        } catch WorkerPoolError.workerEnded(_, let end) {
            print("\(name): its worker \(end)")
        } catch {
            print("\(name): \(error)")
        }
    }

    private static func picture(_ header: String, pixels count: Int) -> [UInt8] {
        Array(header.utf8) + (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    }
}
