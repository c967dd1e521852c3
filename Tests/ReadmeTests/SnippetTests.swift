import OwnThread
import Testing

/// Everything that the pages and the doc comments show compiles as their reader pastes it.
@Suite(.ownThread) struct SnippetTests {
    /// Without those that are files which are built, some of them in packages that need more than this one fetches.
    private static let programs: [Program] = {
        let pages = Repository.pages.flatMap { (try? Snippet.all(of: $0)) ?? [] }
        let samples = Repository.files(in: "Sources", ".swift").flatMap { (try? Snippet.samples(of: $0)) ?? [] }
        let files = ["Examples", "Tests"].flatMap { Repository.files(in: $0, ".swift") }
        let built = Set(files.compactMap { try? Repository.text($0) })
        return Program.all(pages + samples).filter { !$0.snippets.allSatisfy { built.contains($0.text) } }
    }()

    @Test(arguments: programs)
    func `a snippet compiles as it is`(_ program: Program) {
        let diagnostics = program.diagnostics()
        #expect(diagnostics == "", "\(program.testDescription): \(diagnostics)")
    }

    @Test func `at a top level that awaits, the compiler says where a call that blocks belongs`() {
        let program = """
            import Ports
            let echo = try RemoteMessagePort(name: "com.example.echo")
            print(try await echo.request(id: 1) ?? [])
            """
        let diagnostics = Program(snippets: [Snippet(text: program, page: "main", line: 1)]).diagnostics()
        #expect(diagnostics.contains("`try await` it in an async function, not at the top of main.swift"))
    }

    @Test func `there are snippets`() { #expect(Self.programs.count > 40) }
}
