import ArgumentParser
import Glibc

/// Compares the ports and the run loop with what people would use instead.
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Compares the ports and the run loop with what people would use instead.",
        discussion: """
            The contenders do the same work in one run, and take turns. The tables show medians of all rounds, and \
            half the distance between the quartiles.
            """)

    enum Half: String, ExpressibleByArgument, CaseIterable {
        case ports, loop
    }

    @Argument(help: "What to compare; both without.")
    var half: Half?

    @Option(help: "Only rows with this in their names.")
    var only: String?

    @Option(help: "How many rounds count.")
    var rounds = 9

    @Flag(help: "Print the rows' names.")
    var list = false

    @Option(help: "Write all values to this file.", completion: .file())
    var json: String?

    @Option(help: "Compare with a file that --json wrote. Says nothing in the exit status.", completion: .file())
    var compare: String?

    @Option(help: "Measure nothing: print and compare the values of this file.", completion: .file())
    var from: String?

    func validate() throws {
        guard rounds > 0 else { throw ValidationError("at least one round is needed") }
    }

    func run() throws {
        let former = try compare.map(Report.init(file:))
        guard let report = try from.map(Report.init(file:)) ?? measured() else { return }
        print(report.tables)
        if let former { print("\n" + report.comparison(with: former)) }
        if let json { try report.write(to: json) }
    }

    /// Nil if only the names of the rows were wanted.
    private func measured() throws -> Report? {
        // Before the first port: where both processes look for names.
        let directory = try TemporaryDirectory()
        setenv("PORTS_DIRECTORY", directory.path, 1)
        raiseDescriptorLimit()
        var rows: [Row] = []
        if half != .loop { rows += try PortBenchmarks.rows(directory: directory.path) }
        if half != .ports { rows += LoopBenchmarks.rows }
        if let only { rows = rows.filter { $0.name.contains(only) } }
        guard !rows.isEmpty else { throw BenchError.noRow(only ?? "") }
        if list {
            print(rows.map(\.name).joined(separator: "\n"))
            return nil
        }

        var report = Report(rounds: rounds)
        print(report.machine)
        print(PortBenchmarks.conditions + ExtraPeers.conditions)
        fflush(nil)
        for (index, row) in rows.enumerated() {
            Progress.show("\(index + 1) of \(rows.count): \(row.name)")
            report.figures += try row.figures(rounds: rounds)
        }
        Progress.show("")
        return report
    }
}

/// This program, or a child of its.
@main
enum Program {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        guard arguments.first == Child.argument, arguments.count == 2 else { return Bench.main() }
        do { try Child.serve(arguments[1]) } catch { fail(error) }
    }
}

/// What is being measured, where somebody watches.
enum Progress {
    static func show(_ text: String) {
        guard isatty(STDERR_FILENO) == 1 else { return }
        let line = "\r\u{1B}[K\(text)"
        _ = write(STDERR_FILENO, line, line.utf8.count)
    }
}

/// What keeps the benchmark from running.
enum BenchError: Error, CustomStringConvertible {
    case noAnswer
    case noChild
    case noRow(String)
    case noReport(String)
    case role(String)
    case system(String, errno: Int32)

    var description: String {
        switch self {
        case .noAnswer: "the other end did not answer"
        case .noChild: "the child did not say what it had to"
        case .noRow(let name): "no row is named like \(name)"
        case .noReport(let file): "\(file) cannot be read, or is not what --json has written"
        case .role(let role): "there is no child like \(role)"
        case .system(let call, let errno): "\(call) failed with errno \(errno)"
        }
    }
}

/// Nothing was compared if anything could not run.
func fail(_ error: any Error) -> Never {
    let text = "bench: \(error)\n"
    _ = write(STDERR_FILENO, text, text.utf8.count)
    exit(1)
}
