import Foundation
import NATSPorts
import Testing

/// The example of the page “More than one machine”, with encryption and a password as between two machines.
@Suite(.ownThread) struct FarNotesTests {
    private func start(_ arguments: [String], _ nats: NATSServer) throws -> (Process, Pipe) {
        let process = Process()
        let own = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
        process.executableURL = own.appendingPathComponent("far-notes")
        process.arguments = arguments
        process.environment = [
            "NATS_URL": "tls://notes:secret@localhost:\(nats.port)", "NATS_CA": nats.path(of: "ca.pem"),
        ]
        let output = Pipe()
        (process.standardOutput, process.standardError) = (output, output)
        try process.run()
        return (process, output)
    }

    private func output(_ arguments: [String], _ nats: NATSServer) throws -> String {
        let (process, pipe) = try start(arguments, nats)
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }

    /// Whether the daemon has a reader of new notes.
    private func isFollowed(_ nats: NATSServer) async -> Bool {
        let tls = NATSOptions.TLS(authoritiesFile: nats.path(of: "ca.pem"))
        guard
            let connection = try? await NATSConnection(
                "tls://notes:secret@localhost:\(nats.port)", options: NATSOptions(tls: tls)),
            let daemon = try? await connection.services(named: "com.example.far-notes").first
        else { return false }
        return daemon.requests.contains { $0.name == "NewNotes" && $0.inProgress == 1 }
    }

    @Test func `the notes are kept by one process, and asked for by others`() async throws {
        let nats = try NATSServer(
            """
            authorization { user: notes, password: secret }
            tls { cert_file: "FOLDER/cert.pem", key_file: "FOLDER/key.pem" }
            """
        ) { try makeCertificates($0, host: "localhost") }
        #expect(try output([], nats).contains("nobody serves the name"))
        let (daemon, _) = try start(["--serve"], nats)
        #expect(await waitUntil { (try? output([], nats)) == "" })
        let (follower, followed) = try start(["--follow"], nats)
        #expect(await waitUntil { await isFollowed(nats) })
        #expect(try output(["buy", "milk"], nats) == "note 1\n")
        #expect(try output(["call", "Ann"], nats) == "note 2\n")
        #expect(try output([""], nats) == "far-notes: the note is empty\n")
        #expect(try output([], nats) == "buy milk\ncall Ann\n")
        daemon.terminate()
        daemon.waitUntilExit()
        #expect(daemon.terminationStatus == 0)
        // The stream ends with the daemon, after the last element.
        let news = followed.fileHandleForReading.readDataToEndOfFile()
        follower.waitUntilExit()
        #expect(String(decoding: news, as: UTF8.self) == "new: buy milk\nnew: call Ann\n")
        #expect(follower.terminationStatus == 0)
    }
}
