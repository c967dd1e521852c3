import Ports
import Synchronization

/// A daemon is replaced by its next version while clients ask it without a pause. No request is lost.
@main struct HotUpgrade {
    static func main() async throws {
        if let version = CommandLine.arguments.dropFirst().first.flatMap({ UInt8($0) }) {
            return try await serve(version: version)
        }
        let first = try await WorkerProcess.launch(.init("/proc/self/exe", ["1"]))
        _ = try await first.checkIn()
        let answers = Answers()
        try await withThrowingTaskGroup(of: Void.self) { clients in
            for _ in 1...4 { clients.addTask { try await ask(answers) } }
            while answers.count(ofVersion: 1) < 100 { try await Task.sleep(for: .milliseconds(1)) }
            print("Version 1 answers.")
            let second = try await WorkerProcess.launch(.init("/proc/self/exe", ["2"]))
            _ = try await second.checkIn()
            _ = try await first.waitForExit(before: .now + .seconds(10))
            print("Version 1 has ended.")
            try await clients.waitForAll()
            print("Version 2 answers. No request is lost.")
            second.send(signal: 15)
            _ = try await second.waitForExit(before: .now + .seconds(10))
        }
    }

    /// Asks until the second version has answered often enough. An error ends the example.
    static func ask(_ answers: Answers) async throws {
        let clock = try await RemoteMessagePort(name: name)
        while answers.count(ofVersion: 2) < 100 {
            answers.note(version: try await clock.request(id: 1)?.first ?? 0)
        }
    }
}

/// The answers of each version.
final class Answers: Sendable {
    private let counts = Mutex([UInt8: Int]())

    func note(version: UInt8) { counts.withLock { $0[version, default: 0] += 1 } }
    func count(ofVersion version: UInt8) -> Int { counts.withLock { $0[version, default: 0] } }
}
