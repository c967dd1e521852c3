import Foundation
import TypedPorts

/// A daemon for systemd. “daemon serve FILE” greets with the words of the file, “daemon ask NAME” is a client, and “daemon
/// report” says what the daemon has done. Without arguments a demonstration runs.
@main
struct Daemon {
    static func main() async {
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            FileHandle.standardError.write(Data("daemon: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func run(_ arguments: [String]) async throws {
        switch (arguments.first, arguments.count) {
        case (nil, _): try await demonstrate()
        case ("serve", 2): try await serve(path: arguments[1])
        case ("ask", 2): print(try await RequestClient(serviceName).request(Greet(name: arguments[1])))
        case ("report", 1):
            print("greetings: \(try await RequestClient(serviceName).request(Report()).greetings)")
        default:
            FileHandle.standardError.write(Data("usage: daemon [serve FILE | ask NAME | report]\n".utf8))
            exit(64)
        }
    }
}
