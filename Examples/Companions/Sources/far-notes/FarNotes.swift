@preconcurrency import Glibc  // for stderr
import NATSPorts
import TypedPorts

struct Add: PortRequest, NetworkRequest {
    typealias Reply = Int
    enum Failure: Error, Codable { case noteIsEmpty }
    var text: String
}

struct AllNotes: PortRequest, NetworkRequest {
    typealias Reply = [String]
}

struct NewNotes: PortStreamRequest, NetworkRequest {
    typealias Element = String
}

actor Notebook {
    private(set) var notes: [String] = []
    private var readers: [AsyncStream<String>.Continuation] = []

    func add(_ text: String) throws -> Int {
        if text.isEmpty { throw Add.Failure.noteIsEmpty }
        notes.append(text)
        for reader in readers { reader.yield(text) }
        return notes.count
    }

    func newNotes() -> AsyncStream<String> {
        let (stream, reader) = AsyncStream.makeStream(of: String.self, bufferingPolicy: .bufferingNewest(100))
        readers.append(reader)
        return stream
    }

    func close() {
        for reader in readers { reader.finish() }
    }
}

@main
struct FarNotes {
    static let name = "com.example.far-notes"

    static func main() async {
        do {
            let words = Array(CommandLine.arguments.dropFirst())
            let nats = try await connect()
            if words == ["--serve"] { try await serve(nats) } else { try await ask(nats, words) }
        } catch Add.Failure.noteIsEmpty {
            fputs("far-notes: the note is empty\n", stderr)
            exit(1)
        } catch {
            fputs("far-notes: \(error)\n", stderr)
            exit(1)
        }
    }

    /// NATS_URL says where NATS is, and NATS_CA is the file of the authority that its certificate is from.
    private static func connect() async throws -> NATSConnection {
        let url = getenv("NATS_URL").map { String(cString: $0) } ?? "nats://127.0.0.1:4222"
        let authority = getenv("NATS_CA").map { String(cString: $0) }
        let tls = authority.map { NATSOptions.TLS(authoritiesFile: $0) }
        return try await NATSConnection(url, options: NATSOptions(name: "far-notes", tls: tls))
    }

    private static func serve(_ nats: NATSConnection) async throws {
        // First: until the sequence is made, SIGTERM ends the process at once.
        let signals = try SignalSequence([SIGTERM, SIGINT])
        let notebook = Notebook()
        let server = try RequestServer(name: name, on: nats)
        server.handle(Add.self) { request in try await notebook.add(request.text) }
        server.handle(AllNotes.self) { _ in await notebook.notes }
        server.handle(NewNotes.self) { _ in await notebook.newNotes() }
        async let serving: Void = server.run()
        _ = try await signals.wait()
        await notebook.close()
        await server.finish(timeout: .seconds(5))
        try await serving
        nats.close()
        withExtendedLifetime(signals) {}
    }

    private static func ask(_ nats: NATSConnection, _ words: [String]) async throws {
        let notes = try RequestClient(name, on: nats)
        if words == ["--follow"] {
            for try await note in notes.stream(NewNotes()) {
                print("new: \(note)")
                fflush(nil)
            }
        } else if words.isEmpty {
            for note in try await notes.request(AllNotes()) { print(note) }
        } else {
            print("note \(try await notes.request(Add(text: words.joined(separator: " "))))")
        }
    }
}
