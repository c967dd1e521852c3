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

    @Test func `what catches an error compiles in tasks, too, where calls throw any error`() throws {
        let examples = try Repository.files(in: "Examples", ".swift").map { try (page: $0, text: Repository.text($0)) }
        let snippets = Self.programs.flatMap(\.snippets).map { (page: $0.page, text: $0.text) }
        for (page, text) in snippets + examples {
            #expect(!text.contains(/catch \.\w/), "\(page): name the error's type")
        }
        let page = "Sources/SwiftPortsGuide/SwiftPortsGuide.docc/Diagnosing.md"
        var snippet = try #require(try Snippet.all(of: page).first { $0.text.contains("becameInvalid") })
        let blocking = snippet.text
        snippet.text.replace("String) {", with: "String) async {")
        snippet.text.replace("try RemoteMessagePort", with: "try await RemoteMessagePort")
        #expect(snippet.text.count == blocking.count + 12)
        #expect(Program(snippets: [snippet]).diagnostics() == "")
    }

    @Test(arguments: [
        ("_ = try await client.request(Words())", "for try await element in client.stream(request)"),
        ("for try await word in client.stream(Word()) { print(word) }", "try await client.request(request)"),
        ("for try await _ in client.stream(Word(), idleTimeout: .seconds(1)) {}", "try await client.request(request)"),
    ])
    func `a request in the wrong form gets an error that says the right one`(line: String, remedy: String) {
        let program = """
            import TypedPorts
            struct Word: PortRequest { typealias Reply = String }
            struct Words: PortStreamRequest { typealias Element = String }
            func ask(_ client: RequestClient) async throws {
                \(line)
            }
            """
        let diagnostics = Program(snippets: [Snippet(text: program, page: "ask", line: 1)]).diagnostics()
        #expect(diagnostics.contains("is unavailable"), "\(diagnostics)")
        #expect(diagnostics.contains(remedy), "\(diagnostics)")
    }

    @Test func `a connection with NATS without the trait gets an error that names it`() {
        let program = """
            import NATSPorts
            func connect() async throws { _ = try await NATSConnection("nats://127.0.0.1:4222") }
            func block() throws { _ = try NATSConnection("nats://127.0.0.1:4222") }
            """
        let diagnostics = Program(snippets: [Snippet(text: program, page: "connect", line: 1)]).diagnostics()
        let remedy = "add the trait “NATS” to the dependency on swift-ports, and install libnats"
        #expect(diagnostics.split(separator: remedy).count >= 3, "\(diagnostics)")
    }

    @Test func `a stream's request in the wrong form in code that blocks gets an error that says the right one`() {
        let program = """
            import TypedPorts
            struct Words: PortStreamRequest { typealias Element = String }
            func ask(_ client: RequestClient) throws {
                _ = try client.request(Words())
                try client.request(Words()) { print($0) }
            }
            """
        let diagnostics = Program(snippets: [Snippet(text: program, page: "ask", line: 1)]).diagnostics()
        let remedy = "write `try client.stream(request, onElement: { … }, onEnd: { … })`"
        #expect(diagnostics.contains("ask:4:20: error"), "\(diagnostics)")
        #expect(diagnostics.contains("ask:5:16: error"), "\(diagnostics)")
        #expect(diagnostics.contains(remedy + ", or `for try await element in client.stream(request)` in a task"))
        #expect(diagnostics.contains(remedy + "\n"), "\(diagnostics)")
    }

    @Test func `there are snippets`() { #expect(Self.programs.count > 40) }
}
