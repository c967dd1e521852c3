import Foundation

/// The files of this repository.
enum Repository {
    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The folder of a module, in Sources or in one of the folders there.
    static func folder(of module: String) throws -> String {
        let groups = try FileManager.default.contentsOfDirectory(atPath: root.appendingPathComponent("Sources").path)
        return groups.map { "Sources/\($0)/\(module)" }.first(where: exists) ?? "Sources/\(module)"
    }

    static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appendingPathComponent(path).path)
    }

    /// The paths of the files in a folder and its folders, sorted, without those that builds have left.
    static func files(in folder: String, _ suffix: String) -> [String] {
        let all = FileManager.default.enumerator(atPath: root.appendingPathComponent(folder).path)
        return (all?.compactMap { $0 as? String } ?? []).filter { $0.hasSuffix(suffix) && !$0.contains("/.build/") }
            .map { "\(folder)/\($0)" }
            .sorted()
    }

    /// What people read: the pages at the top, and those of the documentation.
    static let pages =
        files(in: "Sources", ".md") + ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].filter(exists)
}
