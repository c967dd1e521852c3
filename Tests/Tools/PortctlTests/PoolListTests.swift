import Foundation
import OwnThread
import TestSupport
import Testing

/// Pools of workers, as the commands show them.
@Suite(.ownThread) struct PoolListTests {
    private let registry = Registry()
    private let folder = TemporaryFolder()

    /// Starts a process with a pool of two workers, each with a request, and a named port.
    /// - Returns: The processes of the workers.
    private func start() throws -> (owner: Child, workers: [Int]) {
        let file = folder.path + "/pids"
        let owner = Child(
            ["\(Child.folder)/WorkersTestHelper", file, "server"], environment: ["PORTS_DIRECTORY": registry.path])
        try #require(waitUntil { bytes(ofFile: file).last == UInt8(ascii: "\n") })
        let text = String(decoding: bytes(ofFile: file).dropLast(), as: UTF8.self)
        return (owner, text.split(separator: " ").prefix(2).compactMap { Int($0) })
    }

    @Test func `list and map show the pools of owners, with their workers`() throws {
        let (owner, workers) = try start()
        var list = Outcome(nil)
        // One worker may have had both requests before the other has started.
        #expect(
            waitUntil {
                list = registry.portctl("list")
                return list.output.contains("of 2 busy")
            })
        let lines = list.output.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
        #expect(lines.contains("POOL PID STATE REQUESTS RESTARTS"), "\(list)")
        #expect(lines.contains("WorkersTestHelper \(owner.pid) 0 of 2 busy 0 waiting 0"), "\(list)")
        for worker in Set(workers) {
            #expect(lines.contains { $0.hasPrefix("worker \(worker) idle ") }, "\(list)")
        }
        let names = try #require(try registry.json("list", "--json") as? [[String: Any]])
        let info = try #require(names.first?["info"] as? [String: Any])
        let pool = try #require((info["pools"] as? [[String: Any]])?.first)
        #expect(pool["count"] as? Int == 2)
        #expect((pool["workers"] as? [[String: Any]])?.compactMap { $0["requests"] as? Int }.reduce(0, +) == 2)
        let map = try #require(try registry.json("map", "--json") as? [String: Any])
        let process = (map["processes"] as? [[String: Any]])?.first { $0["pid"] as? Int == Int(owner.pid) }
        #expect((process?["pools"] as? [Any])?.count == 1)
        let graph = registry.portctl("map", "--format", "dot").output
        #expect(graph.contains("Pool “WorkersTestHelper”: 0 of 2 busy; pid "), "\(graph)")
    }
}
