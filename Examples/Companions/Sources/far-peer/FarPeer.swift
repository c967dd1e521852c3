import FarRequests
import Glibc
import NATSPorts
import TypedPorts

/// A process that serves a name on NATS, or asks for a long time, until it is killed: for tests.
///
///     far-peer serve nats://127.0.0.1:4222 com.example.far first
///     far-peer ask nats://127.0.0.1:4222 com.example.far
@main struct FarPeer {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4 else { fatalError("far-peer serve|ask URL NAME [OWN NAME]") }
        var options = NATSOptions(name: "far-peer")
        // The servers of the tests are in networks of their own.
        options.allowsUnprotected = true
        let nats = try await NATSConnection(arguments[2], options: options)
        if arguments[1] == "serve" {
            let server = try RequestServer(name: arguments[3], on: nats)
            server.handleFarRequests(as: arguments.count > 4 ? arguments[4] : "peer")
            let running = Task { try await server.run() }
            // Serves when it answers itself by NATS.
            let client = try RequestClient(arguments[3], on: nats)
            while (try? await client.request(Echo("ready"))) == nil {}
            say("ready")
            // The end of the input asks for an orderly end.
            await Task.detached { while readLine() != nil {} }.value
            await server.finish(before: .now + .seconds(20))
            try await running.value
            nats.close()
        } else {
            let client = try RequestClient(arguments[3], on: nats)
            say("ready")
            let echoed = try await client.request(Echo("long", after: .seconds(300)), timeout: .seconds(600))
            say(echoed.text)
        }
    }

    private static func say(_ line: String) {
        print(line)
        fflush(nil)
    }
}
