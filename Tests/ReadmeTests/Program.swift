import Foundation
import TestSupport
import Testing

/// Snippets that make a program together, compiled as their reader would: with no imports but those that they show.
struct Program: Sendable, CustomTestStringConvertible {
    var snippets: [Snippet]

    var testDescription: String { "\(snippets[0].page):\(snippets[0].line)" }

    static func all(_ snippets: [Snippet]) -> [Program] {
        snippets.reduce(into: []) { programs, snippet in
            if snippet.note.isEmpty {
                programs.append(Program(snippets: [snippet]))
            } else {
                programs[programs.count - 1].snippets.append(snippet)
            }
        }
    }

    /// What the compiler says about it. The pass after the types are checked finds data races.
    func diagnostics() -> String {
        let folder = TemporaryFolder()
        var files: [(isMain: Bool, text: String)] = []
        for snippet in snippets {
            let text = "#sourceLocation(file: \"\(snippet.page)\", line: \(snippet.line))\n" + snippet.text
            if snippet.note == "continues" {
                files[files.count - 1].text += text
                files[files.count - 1].isMain = files[files.count - 1].isMain || snippet.hasStatements
            } else {
                files.append((snippet.hasStatements, text))
            }
        }
        let names = files.indices.map { files[$0].isMain ? "main.swift" : "file\($0).swift" }
        for (name, file) in zip(names, files) { folder.write(Array(file.text.utf8), to: name) }
        let run = Run(
            ["\(Self.toolchain)/bin/swiftc", "-frontend", "-emit-sil", "-o", "/dev/null", "-module-name", "Program"]
                + ["-swift-version", "6", "-warnings-as-errors"]
                + (names.contains("main.swift") ? [] : ["-parse-as-library"])
                + (snippets[0].isManifest ? Self.manifests : Self.modules)
                + names.map { "\(folder.path)/\($0)" })
        let status = run.child.wait()
        return status == 0 ? "" : "status \(status ?? -1)\n" + String(decoding: run.errors, as: UTF8.self)
    }

    private static let manifests = [
        "-I", "\(toolchain)/lib/swift/pm/ManifestAPI", "-package-description-version", "6.3",
    ]

    /// What a package that depends on this one finds.
    private static let modules: [String] = {
        let maps = (try? FileManager.default.contentsOfDirectory(atPath: Child.folder)) ?? []
        let built = maps.filter { $0.hasSuffix(".build") }.map { "\(Child.folder)/\($0)/module.modulemap" }
            .filter { FileManager.default.fileExists(atPath: $0) }
        return ["-I", "\(Child.folder)/Modules", "-module-cache-path", "\(Child.folder)/ModuleCache"]
            + (built
            + ["Core/CZeroMQ", "Mac/CCoreFoundationPorts"].map {
                "\(Repository.root.path)/Sources/\($0)/module.modulemap"
            })
            .flatMap { ["-Xcc", "-fmodule-map-file=\($0)"] }
    }()

    /// The one that has built the tests.
    private static let toolchain: String = {
        let maps = FileHandle(forReadingAtPath: "/proc/self/maps")?.readDataToEndOfFile() ?? Data()
        let library = String(decoding: maps, as: UTF8.self).firstMatch(
            of: /(\/\S*)\/lib\/swift\/linux\/libswiftCore\.so/)
        return library.map { String($0.1) } ?? "/usr"
    }()
}
