import Foundation
import OwnThread
import TestSupport
import Testing

/// What a newcomer gets wrong.
@Suite(.ownThread) struct FirstMistakeTests {
    private let registry = Registry()

    @Test(arguments: ["list", "info nobody", "map --json", "request nobody", "ping nobody", "services", "doctor"])
    func `a directory that nobody could use is an error, which names it`(command: String) {
        let relative = registry.shell(#"PORTS_DIRECTORY=ports "$0" \#(command)"#)
        #expect(relative.status == 1)
        #expect((relative.output + relative.errors).contains("its path has to begin with /; set PORTS_DIRECTORY"))
        let orphan = registry.shell(#"PORTS_DIRECTORY="$PORTS_DIRECTORY/no/ports" "$0" \#(command)"#)
        #expect(orphan.status == 1)
        #expect((orphan.output + orphan.errors).contains("make the parent directory, or set PORTS_DIRECTORY"))
        #expect(!FileManager.default.fileExists(atPath: registry.path))
    }

    @Test(arguments: ["list", "info nobody", "request nobody", "send nobody", "ping nobody", "services"])
    func `a command that only looks makes no directory`(command: String) {
        let outcome = registry.shell(#""$0" \#(command)"#)
        #expect([0, 1, 2].contains(outcome.status), "\(outcome)")
        #expect(!FileManager.default.fileExists(atPath: registry.path))
    }

    @Test func `doctor says that it has made the directory`() {
        let first = registry.portctl("doctor").output
        #expect(first.contains("\(registry.path) (from PORTS_DIRECTORY), which was not there and is made now, 0 names"))
        #expect(!registry.portctl("doctor").output.contains("is made now"))
    }

    @Test func `help about a command that is not there names those that are`() {
        let outcome = registry.portctl("help", "lst")
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("There is no command “lst”. The commands are activate, "))
        #expect(registry.portctl("help", "list").output.contains("Show all names"))
        #expect(registry.portctl("help").status == 0)
    }

    @Test func `a number out of its range is told the range`() {
        for id in ["abc", "-1", "4294967296"] {
            let outcome = registry.portctl("request", "nobody", "--id", id)
            #expect(outcome.status == 64)
            #expect(outcome.errors.contains("an id is a number from 0 to 4294967295"), "\(outcome.errors)")
        }
        let long = registry.portctl("timeline", "nobody", "--seconds", "100")
        #expect(long.status == 64)
        #expect(long.errors.contains("A recording takes a minute at most."))
    }
}
