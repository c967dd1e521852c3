import Glibc
import TypedPorts

/// Writes reports until the parent has ended. The worker itself opens no file.
func work() async throws {
    let server = try RequestServer()
    server.handle(WriteReport.self) { request in
        let text = "Report on \(request.title)\nAll is well.\n"
        // The descriptor closes with the request, when the handler has returned.
        return write(try request.output.number, text, text.utf8.count)
    }
    let parent = try await CheckIn.fromEnvironment().complete(with: server)
    parent.onInvalidation { kill(getpid(), SIGTERM) }
    defer { withExtendedLifetime(parent) {} }
    try await server.run()
}
