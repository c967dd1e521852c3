import FarRequests
import Foundation
import NATSPorts
import Testing
import TypedPorts

/// The server of NATS decides who may connect, and the library to which hosts.
@Suite(.serialized, .ownThread) struct NATSSecurityTests {
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

    /// Lasts longer than either side waits for news of the other.
    private struct Long: PortRequest, NetworkRequest { typealias Reply = EmptyReply }

    /// Sends a request and a stream through a connection with these options.
    private func use(_ url: String, _ options: NATSOptions) async throws {
        let connection = try await NATSConnection(url, options: options)
        let server = try RequestServer(name: "far", on: connection)
        server.handleFarRequests(as: "one")
        let running = Task { try await server.run() }
        let client = try RequestClient("far", on: connection)
        #expect(await waitUntil { (try? await client.request(Echo(""))) != nil })
        var count = 0
        for try await _ in client.stream(Numbers(count: 3000)) { count += 1 }
        #expect(count == 3000)
        #expect(await server.finish(timeout: .seconds(60)))
        try await running.value
    }

    /// The sentence of an attempt to connect, which has to fail with an error of this kind.
    private func failure(
        _ url: String, _ options: NATSOptions, at place: SourceLocation, _ isOfKind: (NATSError) -> Bool
    ) async -> String? {
        do {
            _ = try await NATSConnection(url, options: options)
            Issue.record("connected", sourceLocation: place)
        } catch {
            if isOfKind(error) { return "\(error)" }
            Issue.record("\(error)", sourceLocation: place)
        }
        return nil
    }

    /// The server has to refuse the options, and the error has to name the text.
    private func expectRefusal(
        _ url: String, _ options: NATSOptions, naming text: String, at place: SourceLocation = #_sourceLocation
    ) async {
        let isRefusal = { (error: NATSError) in if case .refused = error { true } else { false } }
        guard let sentence = await failure(url, options, at: place, isRefusal) else { return }
        #expect(sentence.contains("refuses \(text): ") && !sentence.contains("secret"), sourceLocation: place)
    }

    /// The attempt has to fail before the server decides, and the error has to name the text.
    private func expectFailure(
        _ url: String, _ options: NATSOptions, naming text: String, at place: SourceLocation = #_sourceLocation
    ) async {
        let isFailure = { (error: NATSError) in if case .cannotConnect = error { true } else { false } }
        guard let sentence = await failure(url, options, at: place, isFailure) else { return }
        #expect(sentence.contains(text), sourceLocation: place)
    }

    @Test func `a user and a password let in, by options or the URL`() async throws {
        let nats = try NATSServer("authorization { user: alice, password: secret }")
        try await use(nats.url, NATSOptions(authentication: .user("alice", password: "secret")))
        let url = nats.url.replacingOccurrences(of: "//", with: "//alice:secret@")
        try await use(url, NATSOptions())
        let wrong = NATSOptions(authentication: .user("alice", password: "wrong"))
        await expectRefusal(nats.url, wrong, naming: "the user “alice”")
        let wrongURL = nats.url.replacingOccurrences(of: "//", with: "//bob:secret@")
        await expectRefusal(wrongURL, NATSOptions(), naming: "the user “bob”")
        await expectRefusal(nats.url, NATSOptions(), naming: "a program that does not say who it is")
    }

    @Test func `who is let in no more learns why, and a connection that is made later serves again`() async throws {
        let good = "authorization { user: alice, password: secret }"
        let nats = try NATSServer(good)
        let options = NATSOptions(authentication: .user("alice", password: "secret"))
        let connection = try await NATSConnection(nats.url, options: options)
        let server = try RequestServer(name: "far", on: connection)
        server.handleFarRequests(as: "one")
        let serving = Task { try await server.run() }
        let client = try RequestClient("far", on: connection)
        #expect(await waitUntil { (try? await client.request(Echo(""))) != nil })
        try nats.reload("authorization { user: alice, password: other }")
        let end = await #expect(throws: PortError.self) { try await serving.value }
        let text = String(describing: end)
        #expect(text.contains("refuses the user “alice”: "), "\(text)")
        // Each later request has the cause, too.
        for _ in 0..<2 {
            let error = await #expect(throws: NATSError.self) { try await client.request(Echo("")) }
            guard case .refused(nats.url, "the user “alice”", _)? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
        try nats.reload(good)
        #expect(await waitUntil { (try? await NATSConnection(nats.url, options: options)) != nil })
        try await use(nats.url, options)
    }

    @Test func `a token lets in`() async throws {
        let nats = try NATSServer("authorization { token: secret }")
        try await use(nats.url, NATSOptions(authentication: .token("secret")))
        await expectRefusal(nats.url, NATSOptions(authentication: .token("wrong")), naming: "the token")
        let url = nats.url.replacingOccurrences(of: "//", with: "//secret@")
        try await use(url, NATSOptions())
        let wrongURL = nats.url.replacingOccurrences(of: "//", with: "//secrets@")
        await expectRefusal(wrongURL, NATSOptions(), naming: "the token of the URL")
    }

    @Test func `an nkey lets in`() async throws {
        let folder = try TemporaryFolder()
        let (known, unknown) = (try NATSKey(.user, in: folder.path), try NATSKey(.user, in: folder.path))
        for key in [known, unknown] {
            try key.seed.write(toFile: folder.path + "/" + key.name, atomically: true, encoding: .utf8)
        }
        func options(_ key: NATSKey, _ file: String) -> NATSOptions {
            NATSOptions(authentication: .nkey(publicKey: key.name, seedFile: folder.path + "/" + file))
        }
        let nats = try NATSServer("authorization { users: [ { nkey: \(known.name) } ] }")
        try await use(nats.url, options(known, known.name))
        await expectRefusal(nats.url, options(unknown, unknown.name), naming: "the nkey \(unknown.name)")
        // The seed is another key's.
        await expectRefusal(nats.url, options(known, unknown.name), naming: "the nkey \(known.name)")
        await expectFailure(nats.url, options(known, "missing"), naming: folder.path + "/missing")
    }

    @Test func `a file of credentials lets in until it expires`() async throws {
        let folder = try TemporaryFolder()
        let authority = try NATSAuthority(in: folder.path)
        let nats = try NATSServer(authority.configuration)
        func options(_ file: String) -> NATSOptions { NATSOptions(authentication: .credentials(file: file)) }
        let ann = try authority.credentials("ann", expires: Date(timeIntervalSinceNow: 600))
        try await use(nats.url, options(ann))
        let late = try authority.credentials("late", expires: Date(timeIntervalSinceNow: -50))
        await expectRefusal(nats.url, options(late), naming: "the credentials of \(late)")
        let stranger = try NATSAuthority(in: folder.path).credentials("stranger")
        await expectRefusal(nats.url, options(stranger), naming: "the credentials of \(stranger)")
        await expectFailure(nats.url, options(folder.path + "/missing"), naming: folder.path + "/missing")
        try "nothing".write(toFile: folder.path + "/empty", atomically: true, encoding: .utf8)
        await expectFailure(nats.url, options(folder.path + "/empty"), naming: folder.path + "/empty")
    }

    @Test func `TLS checks the server's certificate and its name`() async throws {
        let tls = "tls { cert_file: \"FOLDER/cert.pem\", key_file: \"FOLDER/key.pem\" }"
        let right = try NATSServer(tls) { try makeCertificates($0, host: "localhost") }
        let trusted = NATSOptions(tls: .init(authoritiesFile: right.path(of: "ca.pem")))
        let url = "tls://localhost:\(right.port)"
        try await use(url, trusted)
        // Nobody trusts the authority, also when the URL does not ask for TLS.
        await expectFailure(url, NATSOptions(), naming: "has to be from an authority of TLS.authoritiesFile")
        await expectFailure("nats://localhost:\(right.port)", NATSOptions(), naming: "TLS.authoritiesFile")
        let missing = NATSOptions(tls: .init(authoritiesFile: right.path(of: "missing.pem")))
        await expectFailure(url, missing, naming: right.path(of: "missing.pem"))
        await expectFailure(url, NATSOptions(tls: .init(authoritiesFile: "")), naming: "empty")
        let wrong = try NATSServer(tls) { try makeCertificates($0, host: "example.com") }
        let fooled = NATSOptions(tls: .init(authoritiesFile: wrong.path(of: "ca.pem")))
        await expectFailure("tls://localhost:\(wrong.port)", fooled, naming: "name the URL's host")
        let plain = try NATSServer()
        await expectFailure("tls://localhost:\(plain.port)", trusted, naming: "nats://")
    }

    @Test func `a server may ask for the program's certificate`() async throws {
        let nats = try NATSServer(
            """
            tls { cert_file: "FOLDER/cert.pem", key_file: "FOLDER/key.pem", ca_file: "FOLDER/ca.pem", verify: true }
            """
        ) { try makeCertificates($0, host: "localhost") }
        let (authority, url) = (nats.path(of: "ca.pem"), "tls://localhost:\(nats.port)")
        try await use(
            url,
            NATSOptions(
                tls: .init(
                    authoritiesFile: authority, certificateFile: nats.path(of: "cert.pem"),
                    keyFile: nats.path(of: "key.pem"))))
        await expectFailure(url, NATSOptions(tls: .init(authoritiesFile: authority)), naming: "TLS.certificateFile")
        let missing = NATSOptions.TLS(authoritiesFile: authority, certificateFile: nats.path(of: "missing.pem"))
        await expectFailure(url, NATSOptions(tls: missing), naming: nats.path(of: "missing.pem"))
    }

    @Test func `users with inboxes of their own need only the permissions that the documentation names`() async throws {
        let nats = try NATSServer(
            """
            authorization { users: [
              { user: server, password: secret, permissions: {
                  publish: ["mine.>"], subscribe: ["far", "far.$ports", "far.$ports.>", "$SRV.>", "theirs.>"] } }
              { user: client, password: secret, permissions: {
                  publish: ["far", "far.$ports", "far.$ports.>"], subscribe: ["mine.>"] } }
              { user: stranger, password: secret, permissions: { publish: ["theirs.>"], subscribe: ["theirs.>"] } }
            ] }
            """)
        func connection(_ user: String, _ prefix: String) async throws -> NATSConnection {
            var options = NATSOptions(authentication: .user(user, password: "secret"))
            options.inboxPrefix = prefix
            return try await NATSConnection(nats.url, options: options)
        }
        let server = try RequestServer(name: "far", on: try await connection("server", "theirs"))
        server.handleFarRequests(as: "one")
        server.handle(Long.self) { _ in
            try await Task.sleep(for: .seconds(6))
            return EmptyReply()
        }
        let running = Task { try await server.run() }
        let client = try RequestClient("far", on: try await connection("client", "mine"))
        #expect(await waitUntil { (try? await client.request(Echo(""))) != nil })
        _ = try await client.request(Long(), timeout: .seconds(60))
        var count = 0
        for try await _ in client.stream(Numbers(count: 3000)) { count += 1 }
        #expect(count == 3000)
        let stranger = try RequestClient("far", on: try await connection("stranger", "theirs"))
        let start = ContinuousClock.now
        do {
            _ = try await stranger.request(Echo(""), timeout: .seconds(60))
            Issue.record("the stranger has an answer")
        } catch { #expect("\(error)".contains("may not publish")) }
        #expect(ContinuousClock.now - start < .seconds(30))
        #expect(await server.finish(timeout: .seconds(60)))
        try await running.value
    }
}

/// A folder until the release.
private final class TemporaryFolder: Sendable {
    let path = NSTemporaryDirectory() + "nats-keys-\(UUID().uuidString)"

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
