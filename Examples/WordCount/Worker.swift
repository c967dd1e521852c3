import Glibc
import Ports
import RunLoops

/// What a worker does, be it a thread or a process: it checks in, then counts the files it is told to.
enum Worker {
    /// Checks in and has the calling thread's loop serve main's messages; the loop is the caller's to run.
    static func serve(_ checkIn: CheckIn) throws {
        let loop = ThreadRunLoop.current
        let port = try MachPort()
        let main = try checkIn.complete(with: port)
        let mine = port.sendRight
        port.setHandler { message in
            switch message.id {
            case Wire.count:
                guard let index = Wire.index(in: message), let path = Wire.path(in: message) else { return }
                do {
                    try main.send(Wire.result(index, count(path), from: mine))
                } catch {
                    // Main is gone, and nobody wants the result.
                    loop.stop()
                }
            case Wire.end:
                loop.stop()
            default:
                break
            }
        }
        // The loop keeps the port.
        try port.schedule(in: loop)
        main.onInvalidation { loop.stop() }
    }

    private static func count(_ path: [UInt8]) -> Result<Counts, IOError> {
        do throws(FileError) {
            return .success(try Counts.ofFile(atPath: path))
        } catch {
            return .failure(error.reason)
        }
    }

    /// The whole of a worker process.
    static func runProcess() throws {
        // Ctrl-C goes to the whole group; it is main that answers it.
        signal(SIGINT, SIG_IGN)
        try serve(CheckIn.fromEnvironment())
        try ThreadRunLoop.current.run()
    }
}
