import Glibc
import OwnThread
import TestSupport
import Testing

/// The daemon and client of the page about moving over, in each of its forms, as a user runs them.
@Suite(.ownThread) struct MovingOverTests {
    private let folder = TemporaryFolder()
    private var environment: [String: String] { ["PORTS_DIRECTORY": folder.path] }

    private func run(_ form: String, _ arguments: String...) -> Run {
        Run(["\(Child.folder)/loadd-\(form)"] + arguments, environment: environment)
    }

    /// The first two forms send the same messages, so that one side at a time can move.
    @Test(arguments: [
        ("corefoundation", "corefoundation"), ("corefoundation", "ports"), ("ports", "corefoundation"),
        ("ports", "ports"), ("typedports", "typedports"),
    ])
    func `a client gets samples from a daemon, which ends on SIGTERM`(_ daemon: String, _ client: String) throws {
        let serving = run(daemon, "serve", "0.05")
        var asking = run(client, "2")
        #expect(
            waitUntil {
                let status = asking.child.wait()
                if status != 0, serving.child.isRunning { asking = run(client, "2") }
                return status == 0
            })
        let lines = String(decoding: asking.output, as: UTF8.self).split(separator: "\n")
        #expect(lines.count == 3)
        for (line, beginning) in zip(lines, ["latest: ", "sample: ", "sample: "]) {
            #expect(line.hasPrefix(beginning))
            #expect(Double(line.dropFirst(beginning.count)) != nil)
        }
        serving.child.signal(SIGTERM)
        #expect(serving.child.wait() == 0)
        #expect(serving.errors == [])
    }

    @Test(arguments: ["corefoundation", "ports", "typedports"])
    func `without a daemon a client says so, and a second daemon ends`(_ form: String) {
        let asking = run(form, "1")
        #expect(asking.child.wait() == 1)
        #expect(waitUntil { saysWhy(asking) })
        let serving = run(form, "serve")
        #expect(waitUntil { run(form, "1").child.wait() == 0 })
        let second = run(form, "serve")
        #expect(second.child.wait() == 1)
        // CoreFoundation's form logs the reason before.
        #expect(waitUntil { saysWhy(second) })
        #expect(serving.child.isRunning)
    }

    private func saysWhy(_ run: Run) -> Bool {
        String(decoding: run.errors, as: UTF8.self).split(separator: "\n").contains { $0.hasPrefix("loadd: ") }
    }
}
