import FarRequests
import Foundation
import NATSPorts
import Testing
import TypedPorts

/// The service API of NATS, by its protocol of lines, as any other client would ask.
@Suite struct ServiceAPITests {
    /// Asks NATS by its own protocol.
    private func ask(_ nats: NATSServer, _ subject: String) throws -> [String: Any] {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(nats.port).bigEndian
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        #expect(isConnected)
        let lines = "CONNECT {\"verbose\":false}\r\nSUB here 1\r\nPUB \(subject) here 0\r\n\r\n"
        _ = write(descriptor, lines, lines.utf8.count)
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return [:] }
            received += buffer[..<count]
            let text = String(decoding: received, as: UTF8.self)
            guard let start = text.range(of: "MSG here 1 "), let line = text[start.upperBound...].range(of: "\r\n"),
                let size = Int(text[start.upperBound..<line.lowerBound])
            else { continue }
            let body = Data(text[line.upperBound...].utf8)
            guard body.count >= size else { continue }
            return try JSONSerialization.jsonObject(with: body.prefix(size)) as? [String: Any] ?? [:]
        }
    }

    @Test func `a server answers ping, info and stats`() async throws {
        let nats = try NATSServer()
        let connection = try await NATSConnection(nats.url)
        let server = try RequestServer(name: "com.example.far", on: connection)
        server.handleFarRequests(as: "one")
        let running = Task { try await server.run() }
        let client = try RequestClient("com.example.far", on: connection)
        #expect(await waitUntil { (try? await client.request(Echo("\"quoted\""))) != nil })
        _ = try? await client.request(Fail(number: 3))

        let pong = try ask(nats, "$SRV.PING")
        #expect(pong["name"] as? String == "com_example_far")
        #expect(pong["type"] as? String == "io.nats.micro.v1.ping_response")
        let id = try #require(pong["id"] as? String)
        #expect(try ask(nats, "$SRV.PING.com_example_far.\(id)")["id"] as? String == id)
        let info = try ask(nats, "$SRV.INFO.com_example_far")
        let endpoints = try #require(info["endpoints"] as? [[String: Any]])
        #expect(endpoints.map { $0["name"] as? String } == ["Echo", "Fail", "Numbers"])
        #expect(endpoints.allSatisfy { $0["subject"] as? String == "com.example.far" })
        let stats = try #require(try ask(nats, "$SRV.STATS.com_example_far")["endpoints"] as? [[String: Any]])
        #expect(stats[0]["num_requests"] as? Int == 1)
        #expect(stats[1]["num_errors"] as? Int == 1)
        #expect(stats[1]["last_error"] as? String != "")
        running.cancel()
        try await running.value
    }
}
