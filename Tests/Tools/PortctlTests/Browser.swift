import Foundation
import TestSupport

/// A browser without a window, if the machine has one: it shows what the scripts of a page make of its data.
enum Browser {
    private static let program: String? = {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        let programs = ["chromium", "chromium-browser", "google-chrome"]
        return folders.flatMap { folder in programs.map { "\(folder)/\($0)" } }.first {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }()

    static var isThere: Bool { program != nil }

    /// The HTML of a page after its scripts have run.
    static func html(of page: String) throws -> String {
        let folder = TemporaryFolder()
        let path = folder.path + "/page.html"
        try page.write(toFile: path, atomically: true, encoding: .utf8)
        let arguments = [
            "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom",
            "--user-data-dir=\(folder.path)/profile", "file://\(path)",
        ]
        let run = Run([program ?? ""] + arguments, environment: ["HOME": folder.path, "LC_ALL": "C.UTF-8"], input: [])
        return run.outcome.output
    }
}
