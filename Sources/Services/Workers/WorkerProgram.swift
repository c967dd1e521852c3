import Glibc
import TypedPorts

/// A program whose processes are the server and the workers of its ``WorkerPool``: one file says what each does.
///
///     struct Square: PortRequest {
///         typealias Reply = Int
///         var number: Int
///     }
///
///     @main struct Squares: WorkerProgram {
///         static func work(_ server: RequestServer) {
///             server.handle(Square.self) { $0.number * $0.number }
///         }
///
///         static func run() async throws {
///             let pool = try WorkerPool(count: 2)
///             async let running: Void = pool.run()
///             print(try await pool.request(Square(number: 12)))
///             await pool.stop()
///             try await running
///         }
///     }
public protocol WorkerProgram {
    /// Sets the handlers of a worker, before it takes requests.
    static func work(_ server: RequestServer) async throws

    /// Does the work of the program itself, which no pool has started.
    static func run() async throws
}

extension WorkerProgram {
    /// Calls ``work(_:)`` in a process that a pool has started, and serves until the pool ends it; else ``run()``. An error
    /// ends the process with a line on the standard error, and status 1.
    public static func main() async {
        PoolMember.noteProgram()
        do {
            if PoolMember.isMember { try await PoolMember.work(work) } else { try await run() }
        } catch {
            endProgram(error)
        }
    }
}

/// Ends the process of a program with a line on the standard error, and status 1.
package func endProgram(_ error: any Error) -> Never {
    let line = Array("\(CommandLine.arguments.first ?? "program"): \(error)\n".utf8)
    _ = write(STDERR_FILENO, line, line.count)
    exit(1)
}
