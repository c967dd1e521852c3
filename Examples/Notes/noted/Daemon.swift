@preconcurrency import Glibc  // for stderr
import NotesRequests
import TypedPorts

@main
struct Daemon {
    static func main() async {
        do {
            try await serve()
        } catch {
            fputs("noted: \(error)\n", stderr)
            exit(1)
        }
    }

    private static func serve() async throws {
        // First: until the sequence is made, SIGTERM ends the process at once.
        let signals = try SignalSequence([SIGTERM, SIGINT])
        let notebook = Notebook()
        let server = try RequestServer(name: serviceName)
        server.handle(Add.self) { request in try await notebook.add(request.text) }
        server.handle(AllNotes.self) { _ in await notebook.notes }
        server.handle(NewNotes.self) { _ in await notebook.newNotes() }
        async let serving: Void = server.run()

        _ = try await signals.wait()
        await notebook.close()
        // A handler that does not return must not keep the daemon.
        guard await server.finish(timeout: .seconds(5)) else { exit(1) }
        try await serving
        // A second signal must not end the process early.
        withExtendedLifetime(signals) {}
    }
}
