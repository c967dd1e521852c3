import FarRequests
import Foundation
import NATSPorts
import Testing
import TypedPorts

/// Who may connect, and where to.
@Suite struct NATSSecurityTests {
    @Test(arguments: [
        "nats://192.0.2.1:4222", "192.0.2.1", "nats://example.com", "tls://example.com",
        "nats://user:secret@example.com",
        "nats://127.0.0.1:4222,nats://192.0.2.1:4222", "nats://[2001:db8::1]:4222", "nats://127.0.0.1.example.com",
    ])
    func `another machine needs encryption and authentication`(url: String) async {
        do {
            _ = try await NATSConnection(url)
            Issue.record("connected with \(url)")
        } catch {
            guard case .unprotected(let named) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(!named.contains("secret"))
        }
    }

    @Test(arguments: ["http://127.0.0.1", "nats://", "nats://127.0.0.1:0", "nats://127.0.0.1:99999", "nats://a b"])
    func `a text that is no URL is an error`(url: String) async {
        await #expect(throws: NATSError.badURL(url)) { try await NATSConnection(url) }
    }

    @Test(arguments: ["", "a..b", "a.*", "a.>", "a b", ".a", "_INBOX.a", "$SRV.PING"])
    func `a name that is no subject is an error`(name: String) async throws {
        let nats = try NATSServer()
        let connection = try await NATSConnection(nats.url)
        #expect(throws: NATSError.badName(name)) { try RequestClient(name, on: connection) }
        #expect(throws: NATSError.badName(name)) { try RequestServer(name: name, on: connection) }
    }

    /// - Returns: Whether a request goes through a connection with these options.
    private func works(_ url: String, _ options: NATSOptions) async throws -> Bool {
        let connection: NATSConnection
        do { connection = try await NATSConnection(url, options: options) } catch NATSError.cannotConnect {
            return false
        }
        let server = try RequestServer(name: "far", on: connection)
        server.handleFarRequests(as: "one")
        let running = Task { try await server.run() }
        let client = try RequestClient("far", on: connection)
        let isServed = await waitUntil { (try? await client.request(Echo(""))) != nil }
        #expect(await server.finish(before: .now + .seconds(60)))
        try await running.value
        return isServed
    }

    @Test func `a user and a password let in, by options or the URL`() async throws {
        let nats = try NATSServer("authorization { user: alice, password: secret }")
        #expect(try await works(nats.url, NATSOptions(authentication: .user("alice", password: "secret"))))
        let url = nats.url.replacingOccurrences(of: "//", with: "//alice:secret@")
        #expect(try await works(url, NATSOptions()))
        #expect(try await !works(nats.url, NATSOptions(authentication: .user("alice", password: "wrong"))))
        #expect(try await !works(nats.url, NATSOptions()))
    }

    @Test func `a token lets in`() async throws {
        let nats = try NATSServer("authorization { token: secret }")
        #expect(try await works(nats.url, NATSOptions(authentication: .token("secret"))))
        #expect(try await !works(nats.url, NATSOptions(authentication: .token("wrong"))))
    }

    @Test func `an nkey lets in`() async throws {
        let nats = try NATSServer(
            "authorization { users: [ { nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 } ] }"
        ) { folder in
            // The pair of the documentation of NATS.
            try "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY".write(
                toFile: folder + "/seed", atomically: true, encoding: .utf8)
        }
        let key = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
        let options = NATSOptions(authentication: .nkey(publicKey: key, seedFile: nats.path(of: "seed")))
        #expect(try await works(nats.url, options))
        #expect(try await !works(nats.url, NATSOptions()))
    }

    @Test func `TLS checks the server's certificate and its name`() async throws {
        let tls = "tls { cert_file: \"FOLDER/cert.pem\", key_file: \"FOLDER/key.pem\" }"
        let right = try NATSServer(tls) { try makeCertificates($0, host: "localhost") }
        let trusted = NATSOptions(tls: .init(authoritiesFile: right.path(of: "ca.pem")))
        let url = "tls://localhost:\(right.port)"
        #expect(try await works(url, trusted))
        // Nobody trusts the authority, or the connection is to be plain.
        #expect(try await !works(url, NATSOptions()))
        #expect(try await !works("nats://localhost:\(right.port)", NATSOptions()))
        let wrong = try NATSServer(tls) { try makeCertificates($0, host: "example.com") }
        let fooled = NATSOptions(tls: .init(authoritiesFile: wrong.path(of: "ca.pem")))
        #expect(try await !works("tls://localhost:\(wrong.port)", fooled))
    }
}
