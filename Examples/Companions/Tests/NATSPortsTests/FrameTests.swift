import FarRequests
import Foundation
import NATSPorts
import Testing
import TypedPorts

/// The frames of requests, as a program of another version, in another language, or without good intentions sends them.
@Suite(.ownThread) struct FrameTests {
    private let nats: NATSServer
    private let name = "com.example.frames"

    init() throws { nats = try NATSServer() }

    /// Runs a server that has answered a request.
    private func serving(_ body: () async throws -> Void) async throws {
        let connection = try await NATSConnection(nats.url)
        let server = try RequestServer(name: name, on: connection)
        server.handleFarRequests(as: "one")
        let running = Task { try await server.run() }
        let client = try RequestClient(name, on: connection)
        #expect(await waitUntil { (try? await client.request(Echo("ready"))) != nil })
        try await body()
        // The server goes on.
        #expect(try await client.request(Echo("again")).text == "again")
        running.cancel()
        try await running.value
    }

    // Items of CBOR.

    private func text(_ text: String) -> [UInt8] { [0x60 | UInt8(text.utf8.count)] + Array(text.utf8) }
    private func entry(_ key: String, _ value: [UInt8]) -> [UInt8] { text(key) + value }
    private func map(_ key: String, _ value: [UInt8]) -> [UInt8] { [0xA1] + entry(key, value) }

    /// `{"head": …, "components": [bytes]}`
    private func value(_ head: [UInt8], _ bytes: [UInt8] = [0x42, 1, 2]) -> [UInt8] {
        [0xA2] + entry("head", head) + entry("components", [0x81] + bytes)
    }
    private var request: [UInt8] { value(map("request", map("id", [7]))) }

    private func frame(_ value: [UInt8], version: UInt8 = 2) -> [UInt8] { Array("PRT".utf8) + [version] + value }

    @Test func `a frame is the version and a value in CBOR`() async throws {
        try await serving {
            let answer = ask(nats, name, frame(request))
            // No handler has the id 7.
            #expect(answer.headers == "")
            #expect(answer.body.starts(with: frame([0xA2] + text("head") + [0xA1] + text("failed"))))
            #expect(answer.body.range(of: Data("the server knows no request of the id 7: it handles ".utf8)) != nil)
        }
    }

    @Test func `a message that is not a frame gets an error of NATS's service API`() async throws {
        var bad: [[UInt8]] = [
            [], Array("{}".utf8), Array("PRT".utf8), frame([]), frame([0xA0]), frame([0xF6]),
            frame([UInt8](repeating: 0x81, count: 100_000)),
        ]
        // More than the value, a length beyond the end, and a text in place of bytes.
        let beyond: [UInt8] = [0x5B, 0x7F, 0, 0, 0, 0, 0, 0, 1]
        let head = map("request", map("id", [7]))
        bad += [frame(request + [0]), frame(value(head, beyond)), frame(value(head, text("a")))]
        // A case that there is not, one of an answer, and two at once.
        bad += [frame(value(map("riddle", [0xA0]))), frame(value(map("refused", [0xA0])))]
        bad += [frame(value([0xA2] + entry("request", map("id", [7])) + entry("release", map("_0", [0x80]))))]
        bad += (0..<request.count).map { frame(Array(request.prefix($0))) }
        try await serving {
            for message in bad {
                let headers = ask(nats, name, message).headers
                let error = "Nats-Service-Error: the message is no request of TypedPorts"
                #expect(headers.contains(error), "\(message.prefix(100))")
                #expect(headers.contains("Nats-Service-Error-Code: 400\r\n"))
            }
        }
    }

    /// A request of the former version for the id 7, without components.
    private static let former: [UInt8] = Array("PRT".utf8) + [1, 1, 7, 0, 0, 0, 0, 0]

    @Test(arguments: [(1, former), (7, Array("PRT\u{7}rest".utf8))])
    func `a client of another version learns both versions`(version: Int, message: [UInt8]) async throws {
        try await serving {
            let reply = ask(nats, name, message)
            #expect(
                reply.headers.contains(
                    "Nats-Service-Error: the request has version \(version), and this server speaks version 2: update")
            )
            // Where the version is, it has been in all versions.
            #expect(reply.body.starts(with: frame([])))
        }
    }

    @Test func `a server of the former version is an error that names both`() async throws {
        let former = LineClient(nats, subject: name)
        former.flush()
        let connection = try await NATSConnection(nats.url)
        let client = try RequestClient(name, on: connection)
        let requests = [
            Task { try await client.request(Echo("hello"), timeout: .seconds(60)).text },
            Task {
                for try await _ in client.stream(Numbers(count: 1)) {}
                return ""
            },
        ]
        for _ in requests {
            // The answer `refused` of version 1, and before it nonsense, which anybody may send.
            let asked = former.next()
            #expect(asked.body.starts(with: frame([])))
            former.publish(Array("nonsense".utf8), to: asked.reply)
            former.publish(frame([67], version: 1), to: asked.reply)
        }
        for request in requests {
            let outcome = await request.result
            #expect { try outcome.get() } throws: {
                guard case PortError.incompatibleVersion(_, ours: 2, theirs: 1)? = $0 as? PortError else {
                    return false
                }
                return "\($0)".contains(name)
            }
        }
    }
}
