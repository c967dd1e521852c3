import Foundation
import TypedPorts

/// Three clients, and a server that is restarted meanwhile.
struct Demonstration {
    private let clients = (1...3).map { _ in RequestClient(serviceName) }

    func run() async throws {
        print("Three clients ask, and wait for a server.")
        async let meanings = ask(["port", "loop", "reply"])
        var server = try start()
        print(try await meanings.joined(separator: "\n"))

        print("A reply may be many elements.")
        for try await word in clients[0].stream(Words(prefix: "po")) { print("   \(word)") }

        print("A handler's error is the asker's.")
        do {
            _ = try await clients[0].request(Lookup(word: "prot"))
        } catch Lookup.Failure.unknownWord(let word) {
            print("   unknown: \(word)")
        }

        print("The server is told to end while it works.")
        async let slow = ask(["port", "loop", "reply"], delay: 300)
        try await Task.sleep(for: .milliseconds(100))
        server.terminate()
        server.waitUntilExit()
        print("   It has answered what it had taken, and ended with status \(server.terminationStatus).")
        print("The clients ask on, and another server starts.")
        async let later = ask(["port", "loop", "reply"])
        server = try start()
        print(try await (slow + later).joined(separator: "\n"))
        server.terminate()
        server.waitUntilExit()
    }

    /// Has each client ask for one of the words.
    private func ask(_ words: [String], delay: Int = 0) async throws -> [String] {
        try await withThrowingTaskGroup(of: String.self) { group in
            for (client, word) in zip(clients, words) {
                group.addTask {
                    "   \(word): \(try await client.request(Lookup(word: word, delay: delay)))"
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }.sorted()
        }
    }

    private func start() throws -> Process {
        let server = Process()
        server.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        server.arguments = ["serve"]
        try server.run()
        return server
    }
}
