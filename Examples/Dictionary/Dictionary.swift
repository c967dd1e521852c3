import Foundation
import TypedPorts

/// A typed service and its clients. “dictionary serve” is the server, “dictionary ask” a client; without arguments a
/// demonstration runs both.
@main
struct Dictionary {
    static func main() async {
        do {
            try await run()
        } catch {
            FileHandle.standardError.write(Data("dictionary: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func run() async throws {
        switch CommandLine.arguments.dropFirst() {
        case ["serve"]: try await serve()
        case ["ask"]: try await ask()
        case []:
            // A registry directory of its own, for the demonstration.
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent("dictionary-\(getpid())").path
            setenv("PORTS_DIRECTORY", directory, 1)
            defer { try? FileManager.default.removeItem(atPath: directory) }
            try await Demonstration().run()
        default:
            FileHandle.standardError.write(Data("usage: dictionary [serve | ask]\n".utf8))
            exit(64)
        }
    }
}
