import Foundation
import OwnThread
import TestSupport
import Testing

/// Listeners of the module XPC, and the processes that have opened sessions with them.
@Suite(.ownThread) struct XPCListenerTests {
    private let registry = Registry()

    private func start(_ command: String) -> Child {
        Child(["\(Child.folder)/XPCTestHelper", command], environment: ["PORTS_DIRECTORY": registry.path])
    }

    @Test func `a listener is listed by the name of its service, with its clients, and so is its end`() throws {
        let service = start("serve")
        #expect(registry.portctl("wait", "service", "--timeout", "60").status == 0)
        let rows = registry.portctl("list").output.split(separator: "\n").map {
            $0.split(separator: " ").map(String.init)
        }
        #expect(rows.map(\.first) == ["NAME", "service"])
        #expect(rows.last?[1] == "\(service.pid)")

        let client = start("connect")
        let isConnected = try waitUntil {
            let info = try registry.json("info", "service", "--json") as? [String: Any]
            return info?["received"] as? Int == 1
        }
        #expect(isConnected)
        let text = registry.portctl("info", "service").output
        #expect(text.contains("owner     process \(service.pid)\n"))
        #expect(text.contains("served    by the dispatch queue “XPC listener service”\n"))
        #expect(text.contains("(pid \(client.pid)): 1 message"))

        let map = try #require(try registry.json("map", "--json") as? [String: Any])
        let edges = try #require(map["edges"] as? [[String: Any]])
        #expect(edges.map { $0["sender"] as? Int32 } == [client.pid])
        let ports = try #require(map["ports"] as? [[String: Any]])
        #expect(ports.map { $0["names"] as? [String] } == [["service"]])
        let kinds = registry.portctl("list", "--json").output
        #expect(kinds.contains(#""label":"XPC listener service""#))

        service.kill()
        service.wait()
        #expect(registry.portctl("info", "service").status == 2)
    }
}
