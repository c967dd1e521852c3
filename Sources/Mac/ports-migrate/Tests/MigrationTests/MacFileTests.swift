import Foundation
import Migration
import Testing

/// The main package compiles and runs what comes of these files.
struct MacFileTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../../../Tests/Mac/MacFiles").standardizedFileURL

    private static func text(_ name: String) throws -> String {
        try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
    }

    private static let names =
        (try? FileManager.default.contentsOfDirectory(atPath: folder.appendingPathComponent("Before").path)) ?? []

    @Test(arguments: names)
    func `a file becomes the one that is tested`(_ name: String) throws {
        let migration = try Migration(Self.text("Before/\(name)"))
        #expect(try migration.text == Self.text("Migrated/\(name)"), "run ports-migrate on a copy of \(name)")
        #expect(migration.remarks == [])
        #expect(try Migration(migration.text).text == migration.text)
    }

    @Test func `there are files`() { #expect(Self.names.count >= 3) }
}
