import Glibc
import RunLoops
import TypedPorts
import Workers

/// A program that an ``Activator`` starts when somebody asks for it, and that ends when nobody has for some time.
///
///     struct Greet: PortRequest {
///         typealias Reply = String
///         var name: String
///     }
///
///     @main struct Greeter: ServiceProgram {
///         static let serviceName = "com.example.greeter"
///
///         static func serve(_ server: RequestServer) {
///             server.handle(Greet.self) { "Hello, \($0.name)!" }
///         }
///     }
///
/// Started by hand, it takes its name itself, and runs until SIGTERM or Ctrl-C.
public protocol ServiceProgram {
    /// The name by which clients find the service.
    static var serviceName: String { get }

    /// Sets the handlers, before the service takes requests.
    static func serve(_ server: RequestServer) async throws

    /// Called when a signal asks the service to end, before its last replies: ends streams that would go on. A service that
    /// cannot give its port back serves on, and may get another call.
    static func willEnd(_ server: RequestServer) async
}

extension ServiceProgram {
    /// Does nothing.
    public static func willEnd(_ server: RequestServer) {}

    /// Serves until SIGTERM, SIGINT, or the time without a request that the service file names. All requests that were taken
    /// have their replies then, and the others wait for the next start. An error ends the process with a line on the standard
    /// error, and status 1.
    public static func main() async {
        do {
            // First: until the sequence is made, the signals end the process at once.
            let signals = try SignalSequence([SIGTERM, SIGINT])
            if let service = try await ActivatedService.fromEnvironment() {
                try await run(service) { (try? await signals.wait()) != nil }
            } else {
                let server = try RequestServer(name: serviceName)
                try await serve(server)
                async let running: Void = server.run()
                _ = try await signals.wait()
                await willEnd(server)
                await server.finish()
                try await running
            }
        } catch {
            endProgram(error)
        }
    }

    /// Serves until the service has nothing to do, or is asked to end.
    /// - Parameter waitForSignal: Returns whether the service is asked to end, and false in a cancelled task.
    static func run(
        _ service: ActivatedService, _ waitForSignal: @escaping @Sendable () async -> Bool
    ) async throws {
        let server = RequestServer(service.port)
        try await serve(server)
        // Before the first request, which may be the one that the service dies of. Without its activator the service goes on.
        try? await service.ready()
        async let running: Void = server.run()
        while true {
            let isAsked = await waitForEnd(service, waitForSignal)
            if isAsked { await willEnd(server) }
            do {
                try await service.giveBack(timeout: .seconds(10))
                break
            } catch {
                log.warning("the service cannot give its port back: \(error)")
                // It serves on, until it has nothing to do again.
                guard isAsked else { continue }
                // The activator is gone. Askers are told, and may find a successor.
                await server.finish()
                break
            }
        }
        try await running
    }

    /// - Returns: Whether a signal asks the service to end; else it has nothing to do.
    private static func waitForEnd(
        _ service: ActivatedService, _ waitForSignal: @escaping @Sendable () async -> Bool
    ) async -> Bool {
        await withTaskGroup { group in
            group.addTask { await waitForSignal() }
            group.addTask {
                try? await service.waitUntilIdle()
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? true
        }
    }
}
