import Foundation

/// The unit file of the example, and how a manager starts the example by it.
struct Unit {
    /// The folder of the repository.
    static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../..")
        .standardizedFileURL.path

    static let path = "\(folder)/Examples/Daemon/daemon.service"

    /// The directives of the section “Service”.
    let directives: [String: String]

    init() throws {
        let text = try String(contentsOfFile: Self.path, encoding: .utf8)
        let section = text.split(separator: "[Service]\n").last?.prefix { $0 != "[" } ?? ""
        let lines = section.split(separator: "\n").filter { !$0.hasPrefix("#") }
        directives = Dictionary(
            lines.map { line in
                let parts = line.split(separator: "=", maxSplits: 1)
                return (String(parts[0]), String(parts.last ?? ""))
            }
        ) { $1 }
    }

    /// The words of a directive, with the home folder in place of `%h`.
    func words(_ directive: String, home: String) -> [String] {
        (directives[directive] ?? "").split(separator: " ").map { $0.replacingOccurrences(of: "%h", with: home) }
    }

    /// The variables with which a manager starts the example.
    func environment(_ manager: ManagerDouble) throws -> [String: String] {
        let seconds = directives["WatchdogSec"].flatMap { Int($0) } ?? 0
        return ["NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "\(seconds * 1_000_000)"]
    }
}
