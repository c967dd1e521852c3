import Foundation
import OwnThread
import TestSupport
import Testing

/// The daemon and the client at which the tutorial arrives, as its reader runs them.
@Suite(.ownThread) struct TutorialTests {
    private let folder = TemporaryFolder()

    private func run(_ program: String, _ arguments: String...) -> Run {
        Run(["\(Child.folder)/\(program)"] + arguments, environment: ["PORTS_DIRECTORY": folder.path])
    }

    private func output(_ arguments: String...) -> String {
        let asking = Run(
            ["\(Child.folder)/notes"] + arguments, environment: ["PORTS_DIRECTORY": folder.path])
        #expect(asking.child.wait() == 0)
        return String(decoding: asking.output, as: UTF8.self)
    }

    @Test func `clients wait for the daemon, add notes, read the new ones, and see its orderly end`() {
        let first = run("notes", "buy", "milk")
        let daemon = run("noted")
        #expect(first.child.wait() == 0)
        #expect(String(decoding: first.output, as: UTF8.self) == "note 1\n")
        #expect(output("") == "notes: the note is empty\n")

        let following = run("notes", "--follow")
        var count = 1
        // Until the reader is there, notes are new to nobody.
        let isRead = waitUntil {
            count += 1
            #expect(output("call", "Ann") == "note \(count)\n")
            return !following.output.isEmpty || count == 20
        }
        #expect(isRead)
        #expect(output() == "buy milk\n" + String(repeating: "call Ann\n", count: count - 1))

        daemon.child.signal(SIGTERM)
        #expect(daemon.child.wait() == 0)
        #expect(following.child.wait() == 0)
        #expect(following.output.starts(with: Array("new: call Ann\n".utf8)))
    }
}
