import FarRequests
import Foundation
import NATSPorts
import Testing
import TypedPorts

/// The commands of portctl that look at servers on NATS, and ask them.
@Suite(.ownThread) struct PortctlTests {
    private struct Run {
        let output: String
        let errors: String
        let status: Int32
    }

    private func portctl(_ arguments: String...) throws -> Run {
        let process = Process()
        let own = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
        process.executableURL = own.appendingPathComponent("portctl")
        process.arguments = arguments
        let (output, errors) = (Pipe(), Pipe())
        (process.standardOutput, process.standardError) = (output, errors)
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let failure = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return Run(output: text, errors: failure, status: process.terminationStatus)
    }

    @Test func `list, ping and request reach a server on NATS`() async throws {
        let nats = try NATSServer()
        let nobody = try portctl("list", "--nats", nats.url)
        #expect(nobody.errors == "portctl: no server has answered on \(nats.url)\n" && nobody.status == 0)
        let missing = try portctl("ping", "com.example.far", "-c", "1", "--nats", nats.url)
        #expect(missing.status == 2 && missing.errors.contains("com.example.far"))

        let connection = try await NATSConnection(nats.url)
        let server = try RequestServer(name: "com.example.far", on: connection)
        server.handleFarRequests(as: "one")
        let running = Task { try await server.run() }
        let client = try RequestClient("com.example.far", on: connection)
        #expect(await waitUntil { (try? await client.request(Echo("x"))) != nil })
        _ = try? await client.request(Fail(number: 3))

        let pong = try portctl("ping", "com.example.far", "-c", "1", "--nats", nats.url)
        #expect(pong.status == 0)
        #expect(pong.output.hasPrefix("PING com.example.far: a server on \(nats.url)\nanswer of a server"))
        let lines = try portctl("list", "--nats", nats.url).output.split(separator: "\n").map {
            $0.split(separator: " ").map(String.init)
        }
        #expect(lines.first == ["NAME", "SERVER", "REQUEST", "TAKEN", "ERRORS", "MS", "RUNNING", "OLDEST"])
        #expect(lines.dropFirst().allSatisfy { $0.first == "com.example.far" })
        #expect(lines.dropFirst().map { [$0[2], $0[4]] } == [["Echo", "0"], ["Fail", "1"], ["Numbers", "0"]])
        let json = try portctl("list", "--nats", nats.url, "--json").output
        let reports = try #require(
            JSONSerialization.jsonObject(with: Data(json.utf8)) as? [[String: Any]])
        #expect(reports.map { $0["name"] as? String } == ["com.example.far"])
        #expect((reports.first?["requests"] as? [[String: Any]])?.count == 3)

        // An id that the server does not know is an error of the server's.
        let unknown = try portctl("request", "com.example.far", "--id", "1", "x", "--nats", nats.url)
        #expect(unknown.status == 5 && unknown.output.isEmpty && !unknown.errors.isEmpty)
        await server.finish(timeout: .seconds(10))
        try await running.value
        #expect(try portctl("request", "com.example.far", "x", "--nats", nats.url).status == 2)
    }

    /// Has no outcome until it is given up.
    struct Endless: PortRequest, NetworkRequest { typealias Reply = EmptyReply }

    @Test func `info shows the requests and streams from NATS among those in progress`() async throws {
        let nats = try NATSServer()
        let connection = try await NATSConnection(nats.url)
        let name = "com.example.both-\(UUID().uuidString.prefix(8))"
        let server = try RequestServer(name: name)
        try server.serve(on: connection)
        server.handleFarRequests(as: "one")
        server.handle(Endless.self) { _ in
            try await Task.sleep(for: .seconds(600))
            return EmptyReply()
        }
        let running = Task { try await server.run() }
        let client = try RequestClient(name, on: connection)
        #expect(await waitUntil { (try? await client.request(Echo("x"))) != nil })
        let asking = Task { try await client.request(Endless(), timeout: .seconds(300)) }
        let reading = Task { for try await _ in client.stream(Numbers(count: 1000, pause: .seconds(1))) {} }

        func requests() throws -> [[String: Any]] {
            let report = try JSONSerialization.jsonObject(with: Data(portctl("info", name, "--json").output.utf8))
            let info = (report as? [String: Any])?["info"] as? [String: Any]
            return (info?["requests"] as? [String: Any])?["oldest"] as? [[String: Any]] ?? []
        }
        #expect(await waitUntil { (try? requests().count) == 2 })
        let seen = try requests()
        #expect(seen.map { $0["type"] as? String } == ["PortctlTests.Endless", "Numbers"])
        #expect(seen.map { $0["mayLast"] as? Bool } == [false, true])
        #expect(seen.allSatisfy { $0["origin"] as? String == "another machine by \(nats.url)" })
        #expect(seen.allSatisfy { ($0["milliseconds"] as? Double).map { $0 > 0 && $0 < 120_000 } == true })
        #expect(try portctl("info", name).output.contains("Endless of another machine by \(nats.url), taken"))
        let lines = try portctl("list", "--nats", nats.url).output.split(separator: "\n").map {
            $0.split(separator: " ").map(String.init)
        }
        #expect(lines.dropFirst().map { $0[6] } == ["0", "0", "1", "1"])
        #expect(lines.dropFirst().map { $0[7] == "-" } == [true, true, false, false])
        asking.cancel()
        reading.cancel()
        #expect(await waitUntil { (try? requests().isEmpty) == true })
        #expect(await server.finish(timeout: .seconds(60)))
        try await running.value
    }

    @Test func `what cannot be reached, or would be open to all, is said`() throws {
        let closed = try portctl("list", "--nats", "nats://127.0.0.1:1")
        #expect(closed.status == 1 && closed.errors.contains("cannot connect to nats://127.0.0.1:1"))
        let open = try portctl("list", "--nats", "nats://203.0.113.1:4222")
        #expect(open.status == 1 && open.errors.contains("use TLS and authentication"))
        let alone = try portctl("list", "--nats-ca", "ca.pem")
        #expect(alone.status == 64 && alone.errors.contains("--nats URL"))
    }
}
