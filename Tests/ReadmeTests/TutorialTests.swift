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

    /// One line on the standard error, and no trap.
    private func expectFailure(_ line: String, of run: Run) {
        #expect(run.child.wait() == 1)
        #expect(String(decoding: run.errors, as: UTF8.self) == line)
        #expect(run.output == [])
    }

    @Test func `clients wait for the daemon, add notes, read the new ones, and see its orderly end`() {
        let first = run("notes", "buy", "milk")
        let daemon = run("noted")
        #expect(first.child.wait() == 0)
        #expect(String(decoding: first.output, as: UTF8.self) == "note 1\n")
        expectFailure("notes: the note is empty\n", of: run("notes", ""))
        expectFailure(
            "noted: the name “com.example.notes” belongs to noted (pid \(daemon.child.pid)): end that process, or use "
                + "another name\n", of: run("noted"))

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
        // The failed request was answered: that is no news for the log.
        #expect(daemon.errors == [])
    }
}
