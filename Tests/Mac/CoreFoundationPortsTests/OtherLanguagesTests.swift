import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

/// Examples/OtherLanguages, each beside a peer in Swift.
@Suite(.ownThread) struct OtherLanguagesTests {
    private let registry = TemporaryFolder()
    private var names: PortNameServer { PortNameServer(directory: registry.path) }

    private func run(_ words: [String]) -> Run {
        Run(
            words,
            environment: [
                "PORTS_DIRECTORY": registry.path, "PKG_CONFIG_PATH": "\(CProgram.installed)/lib/pkgconfig",
                "PATH": "/usr/bin:/bin",
            ])
    }

    /// A client asks a server in Swift. Without the server it fails.
    private func checkClient(_ program: [String]) throws {
        let thread = try RunLoopThread()
        let port = try LocalMessagePort(name: "com.example.upper", nameServer: names) { _, data in
            Array(String(decoding: data ?? [], as: UTF8.self).uppercased().utf8)
        }
        try port.schedule(in: thread.loop)
        let client = run(program + ["com.example.upper", "über alles"])
        #expect(client.child.wait() == 0, "\(String(decoding: client.errors, as: UTF8.self))")
        #expect(String(decoding: client.output, as: UTF8.self) == "ÜBER ALLES\n")
        port.invalidate()
        thread.stop()
        let late = run(program + ["com.example.upper", "nobody"])
        #expect(late.child.wait() == 1)
        #expect(String(decoding: late.errors, as: UTF8.self).hasPrefix("nobody has the name"))
    }

    @Test(arguments: CProgram.Compiler.c) func `a server in C`(_ compiler: CProgram.Compiler) throws {
        let program = CProgram.compiled("Examples/OtherLanguages/server.c", compiler)
        let server = run([program, "com.example.upper"])
        let right = try names.waitForPort(forName: "com.example.upper", before: .now + .seconds(30))
        let remote = RemoteMessagePort(right)
        #expect(try remote.request(id: 1, Array("hello".utf8)) == Array("HELLO".utf8))
        #expect(try remote.request(id: 0, []) == [])
        #expect(server.child.wait() == 0)
    }

    @Test(arguments: CProgram.Compiler.cxx) func `a client in C++`(_ compiler: CProgram.Compiler) throws {
        try checkClient([CProgram.compiled("Examples/OtherLanguages/client.cc", compiler)])
    }

    // Neither program has the sanitizer that a sanitized library needs.
    @Test(
        .enabled(if: CProgram.isInstalled("rustc"), "rustc is not installed"), .enabled(if: CProgram.sanitizer == nil))
    func `a client in Rust`() throws {
        try checkClient([CProgram.compiledRust("Examples/OtherLanguages/client.rs")])
    }

    @Test(.enabled(if: CProgram.sanitizer == nil)) func `a client in Python`() throws {
        try checkClient(["python3", "\(CProgram.repository)/Examples/OtherLanguages/client.py"])
    }
}
