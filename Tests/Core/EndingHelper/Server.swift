import Glibc
import Ports
import RunLoops

@main
struct Server {
    static func main() async throws {
        // First: until the sequence is made, SIGTERM ends the process at once.
        let signals = try SignalSequence([SIGTERM, SIGINT])
        defer { withExtendedLifetime(signals) {} }
        let server = try LocalMessagePort(name: "com.example.server")
        async let serving: Void = server.serve(atMost: 200) { request in try await answer(request) }

        let signal = try await signals.wait()
        print("Signal \(signal): answering the requests in progress")
        // A handler that does not return must not keep the program.
        guard await server.finish(before: .now + .seconds(10)) else { exit(1) }
        try await serving
    }
}
