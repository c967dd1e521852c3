import Foundation
import Testing

/// Three servers of NATS on three machines, which are network namespaces, with a server of ours on each.
///
/// The test needs the right to make network namespaces: root, and a kernel that allows it.
@Suite(.serialized, .ownThread) struct NATSClusterTests {
    @Test(.enabled(if: Network.isPossible), .timeLimit(.minutes(5)))
    func `a cluster loses a server and is cut in two, and each request has one outcome`() async throws {
        let network = try Network()
        let name = "com.example.far"
        var servers: [Peer] = []
        for machine in 0..<3 {
            servers.append(
                try Peer(
                    ["serve", network.url(of: machine), name, "server \(machine)", network.file(machine)],
                    in: network.namespace(machine)))
        }
        // 64 clients on all machines.
        let loads = try (0..<3).map { machine in
            try Peer(
                ["load", network.url(of: machine), name, machine == 0 ? "22" : "21", "24"],
                in: network.namespace(machine))
        }
        try await Task.sleep(for: .seconds(3))
        servers[1].kill()
        network.killServer(2)
        try await Task.sleep(for: .seconds(1))
        try network.startServer(2)
        try await Task.sleep(for: .seconds(2))
        try network.cut(0)
        try await Task.sleep(for: .seconds(10))
        try network.join(0)

        var (asked, replies) = (0, 0)
        for load in loads {
            let line = try #require(load.line())
            let words = line.split(separator: " ")
            func number(_ word: String) -> Int {
                words.firstIndex { $0 == word }.flatMap { Int(words[$0 + 1]) } ?? -1
            }
            #expect(number("asked") == number("replies") + number("errors"), "\(line)")
            #expect(number("wrong") == 0, "\(line)")
            #expect(number("replies") > 0 && number("complete") > 0, "\(line)")
            asked += number("asked")
            replies += number("replies")
        }
        #expect(replies > asked / 2)
        let handled = try (0..<3).flatMap { machine in
            try String(contentsOfFile: network.file(machine), encoding: .utf8).split(separator: "\n")
        }
        #expect(handled.count == Set(handled).count, "requests were handled twice")
        #expect(handled.count >= replies)
        servers[0].finish()
        servers[2].finish()
    }

    @Test(.timeLimit(.minutes(3)))
    func `a reader that NATS cuts off as too slow learns it at the element that it had reached`() async throws {
        // Less than the frames of a stream that may be on their way.
        let nats = try NATSServer("max_payload: 65536\nmax_pending: 65536\nwrite_deadline: \"200ms\"")
        let server = try Peer(["serve", nats.url, "far", "one"])
        let reader = try Peer(["read", nats.url, "far", "2000000", "2000"])
        for _ in 0..<5 {
            try await Task.sleep(for: .milliseconds(300))
            reader.send(SIGSTOP)
            try await Task.sleep(for: .milliseconds(1500))
            reader.send(SIGCONT)
        }
        let outcome = try #require(reader.line())
        let count = try #require(Int(outcome.prefix { $0 != " " }))
        #expect(count >= 0 && count < 2_000_000, "\(outcome)")
        #expect(!outcome.hasSuffix("complete"))
        #expect(reader.line() == "answered")
        server.finish()
    }
}

/// Three machines and a switch between them.
private final class Network: Sendable {
    private static let names = ["a", "b", "c"]
    private let id = String(UUID().uuidString.prefix(6)).lowercased()
    private let folder: String
    private let servers = Shared<[Int: pid_t]>([:])

    @discardableResult
    private static func run(_ command: String) -> Bool {
        let process = Process()
        guard let shell = try? program("sh") else { return false }
        process.executableURL = shell
        process.arguments = ["-c", command]
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    static let isPossible = geteuid() == 0 && run("ip netns add nats-probe && ip netns delete nats-probe")

    func namespace(_ machine: Int) -> String { "nats-\(id)-\(Self.names[machine])" }
    private var hub: String { "nats-\(id)-hub" }
    func file(_ machine: Int) -> String { "\(folder)/handled-\(machine)" }
    func url(of machine: Int) -> String { "nats://127.0.0.1:4222" }

    init() throws {
        folder = NSTemporaryDirectory() + "nats-network-\(id)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        func run(_ command: String) throws {
            guard Self.run("set -e; \(command)") else { throw NATSServerFailure(text: "\(command) has failed") }
        }
        try run("ip netns add \(hub); ip -n \(hub) link add hub type bridge; ip -n \(hub) link set hub up")
        for machine in 0..<3 {
            let (space, name) = (namespace(machine), Self.names[machine])
            try run(
                """
                ip netns add \(space); ip -n \(space) link set lo up
                ip -n \(hub) link add to-\(name) type veth peer name eth0 netns \(space)
                ip -n \(hub) link set to-\(name) master hub; ip -n \(hub) link set to-\(name) up
                ip -n \(space) addr add 10.77.0.\(machine + 1)/24 dev eth0; ip -n \(space) link set eth0 up
                """)
        }
        for machine in 0..<3 { try startServer(machine) }
    }

    deinit {
        for machine in 0..<3 { killServer(machine) }
        for space in (0..<3).map(namespace) + [hub] { Self.run("ip netns delete \(space)") }
        try? FileManager.default.removeItem(atPath: folder)
    }

    func startServer(_ machine: Int) throws {
        let routes = (0..<3).filter { $0 != machine }.map { "nats-route://10.77.0.\($0 + 1):6222" }
        try """
        listen: "0.0.0.0:4222"
        server_name: "\(Self.names[machine])"
        ping_interval: "1s"
        ping_max: 2
        cluster { name: "test", listen: "10.77.0.\(machine + 1):6222", no_advertise: true, routes: \(routes) }
        """.write(toFile: "\(folder)/\(machine).conf", atomically: true, encoding: .utf8)
        let log = "\(folder)/\(machine).log"
        try? FileManager.default.removeItem(atPath: log)
        let process = Process()
        process.executableURL = try program("ip")
        process.arguments = [
            "netns", "exec", namespace(machine), try program("nats-server").path, "-c", "\(folder)/\(machine).conf",
            "-l", log,
        ]
        try process.run()
        let server = process.processIdentifier
        servers.withLock { $0[machine] = server }
        let deadline = Date(timeIntervalSinceNow: 60)
        while (try? String(contentsOfFile: log, encoding: .utf8))?.contains("Server is ready") != true {
            guard Date() < deadline else { throw NATSServerFailure(text: "see \(log)") }
            usleep(2000)
        }
    }

    func killServer(_ machine: Int) {
        guard let server = servers.withLock({ $0.removeValue(forKey: machine) }) else { return }
        kill(server, SIGKILL)
        // Until somebody has collected it.
        while kill(server, 0) == 0 { usleep(1000) }
    }

    /// Cuts a machine off from the others.
    func cut(_ machine: Int) throws { try set(machine, "down") }
    func join(_ machine: Int) throws { try set(machine, "up") }

    private func set(_ machine: Int, _ state: String) throws {
        guard Self.run("ip -n \(hub) link set to-\(Self.names[machine]) \(state)") else {
            throw NATSServerFailure(text: "the network cannot be set \(state)")
        }
    }
}
