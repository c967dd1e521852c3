import FarRequests
import Foundation
import NATSPorts
import Testing
import TypedPorts

/// The service API of NATS, by its protocol of lines, as any other client would ask.
@Suite(.ownThread) struct ServiceAPITests {
    /// A request whose name the API does not allow, as those of generic types.
    struct Odd: PortRequest, NetworkRequest {
        typealias Reply = EmptyReply
        static let requestName = "Größe.Box<Int, String>"
    }

    private func object(_ answer: LineClient.Message) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: answer.body) as? [String: Any] ?? [:]
    }

    /// Runs a server that has answered a request, and failed at another.
    private func serving(_ body: (NATSServer, NATSConnection) async throws -> Void) async throws {
        let nats = try NATSServer()
        let connection = try await NATSConnection(nats.url)
        let server = try RequestServer(name: "com.example.far", on: connection)
        server.handleFarRequests(as: "one")
        server.handle(Odd.self) { _ in EmptyReply() }
        let running = Task { try await server.run() }
        let client = try RequestClient("com.example.far", on: connection)
        #expect(await waitUntil { (try? await client.request(Echo("\"quoted\""))) != nil })
        _ = try? await client.request(Fail(number: 3))
        try await body(nats, connection)
        running.cancel()
        try await running.value
    }

    // The rules are those of NATS's own tools, which ignore an answer that breaks one.
    @Test(arguments: ["PING", "INFO", "STATS"])
    func `answers keep the rules for names, versions and types`(question: String) async throws {
        try await serving { nats, _ in
            let answer = try object(ask(nats, "$SRV.\(question)"))
            #expect(answer["type"] as? String == "io.nats.micro.v1.\(question.lowercased())_response")
            #expect(answer["name"] as? String == "com_example_far")
            #expect(answer["metadata"] as? [String: String] == ["ports.name": "com.example.far"])
            let version = try #require(answer["version"] as? String)
            #expect(version.wholeMatch(of: /\d+\.\d+\.\d+/) != nil)
            let id = try #require(answer["id"] as? String)
            #expect(try object(ask(nats, "$SRV.\(question).com_example_far"))["id"] as? String == id)
            #expect(try object(ask(nats, "$SRV.\(question).com_example_far.\(id)"))["id"] as? String == id)

            guard question != "PING" else { return }
            let endpoints = try #require(answer["endpoints"] as? [[String: Any]])
            #expect(endpoints.map { $0["name"] as? String } == ["Echo", "Fail", "Gr__e_Box_Int__String_", "Numbers"])
            #expect(endpoints.allSatisfy { $0["subject"] as? String == "com.example.far" })
            #expect(endpoints.allSatisfy { $0["queue_group"] as? String == "ports" })
            #expect(endpoints[2]["metadata"] as? [String: String] == ["ports.request": Odd.requestName])
            if question == "INFO" { #expect(answer["description"] is String) }
        }
    }

    @Test func `statistics count requests, errors and nanoseconds`() async throws {
        try await serving { nats, connection in
            let answer = try object(ask(nats, "$SRV.STATS.com_example_far"))
            let started = try #require(answer["started"] as? String)
            let date = try #require(ISO8601DateFormatter().date(from: started))
            #expect(abs(date.timeIntervalSinceNow) < 300)
            let stats = try #require(answer["endpoints"] as? [[String: Any]])
            #expect(stats[0]["num_requests"] as? Int == 1 && stats[0]["num_errors"] as? Int == 0)
            #expect(stats[0]["last_error"] as? String == "")
            #expect(stats[1]["num_requests"] as? Int == 1 && stats[1]["num_errors"] as? Int == 1)
            #expect(stats[1]["last_error"] as? String != "")
            let time = try #require(stats[0]["processing_time"] as? Int)
            #expect(stats[0]["average_processing_time"] as? Int == time)
            // Nanoseconds: no request takes less than a thousand of them, and none takes minutes.
            #expect(time > 1000 && time < 300_000_000_000)
            #expect(stats[2]["num_requests"] as? Int == 0 && stats[2]["average_processing_time"] as? Int == 0)
            let service = try #require(try await connection.services(named: "com.example.far").first)
            #expect(service.requests.map(\.name) == ["Echo", "Fail", Odd.requestName, "Numbers"])
        }
    }

    @Test func `questions about other services have no answer, and NATS says so at once`() async throws {
        try await serving { nats, connection in
            for subject in ["$SRV.INFO.other", "$SRV.PING.com_example_far.other"] {
                let headers = ask(nats, subject).headers
                #expect(headers.hasPrefix("NATS/1.0 503"))
            }
            await #expect(throws: PortError.nameNotFound("com.example.other", directory: nats.url)) {
                try await connection.ping("com.example.other", timeout: .seconds(60))
            }
        }
    }
}
