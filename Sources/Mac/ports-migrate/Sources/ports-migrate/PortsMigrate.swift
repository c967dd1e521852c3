import ArgumentParser
import Foundation
import Migration

@main
struct PortsMigrate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ports-migrate",
        abstract: "Moves Swift files from macOS over to Linux with swift-ports.",
        discussion: """
            The files are changed where they are, so commit them before. Then look at the changes, for example with git \
            diff. A second run changes nothing.

            Changed are: casts between Swift's and CoreFoundation's types (text as CFString becomes text.cfString), \
            timers, observers and threads with selectors, which get closures, the attribute @objc, Port(), and imports.

            For what is left, the command prints one line each: FILE:LINE:COLUMN: what it is, and what to do.

            The status is 1 when a file could not be read, understood or written. All other files are changed all the same.
            """)

    @Flag(name: [.customShort("n"), .customLong("dry-run")], help: "Print the changes as a patch, and write no file.")
    var isDry = false

    @Flag(
        name: .customLong("also-macos"),
        help: "Put the new imports between #if canImport and #endif, for files that are still built on macOS, too.")
    var staysOnMacOS = false

    @Argument(help: "Swift files, and folders with Swift files.", completion: .file(extensions: ["swift"]))
    var paths: [String]

    func run() throws {
        var report = Report()
        let files = paths.flatMap { path in
            do throws(FileProblem) {
                return try SourceFile.all(at: path)
            } catch {
                report.fail(path, error)
                return []
            }
        }
        let sources = files.compactMap { file -> (SourceFile, String)? in
            do throws(FileProblem) {
                return (file, try file.text())
            } catch {
                report.fail(file.path, error)
                return nil
            }
        }
        // Names of one file may mean what another file declares.
        let program = sources.reduce(into: ProgramNames()) { $0.add(ProgramNames(in: $1.1)) }
        for (file, text) in sources { migrate(file, text, program, &report) }
        report.finish(isDry: isDry)
        if report.hasFailed { throw ExitCode.failure }
    }

    private func migrate(_ file: SourceFile, _ text: String, _ program: ProgramNames, _ report: inout Report) {
        do throws(ParseFailure) {
            let migration = try Migration(text, in: program, staysOnMacOS: staysOnMacOS)
            if migration.text != text {
                if isDry {
                    print(Patch(of: file.path, from: text, to: migration.text).text, terminator: "")
                } else {
                    do throws(FileProblem) {
                        try file.write(migration.text)
                    } catch {
                        return report.fail(file.path, error)
                    }
                }
            }
            report.add(file.path, migration, isChanged: migration.text != text)
        } catch {
            report.fail(file.path, error)
        }
    }
}
