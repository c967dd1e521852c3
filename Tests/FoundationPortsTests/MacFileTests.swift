import Foundation
import MacFiles5
import MacFiles6
import OwnThread
import Testing

/// The files of `Tests/MacFiles` do what they do on macOS.
@Suite(.ownThread) struct MacFileTests {
    @Test func `a worker checks in`() {
        for lines in [MacFiles6.checkIn(), MacFiles5.checkIn()] {
            #expect(lines == ["main: checked in", "worker: stop", "main: gone"])
        }
    }

    @Test func `a name finds a port, which answers`() throws {
        let name = "com.example.mac-files.\(ProcessInfo.processInfo.processIdentifier)"
        for answer in [MacFiles6.askByName(name), MacFiles5.askByName(name)] {
            let (id, parts) = try #require(answer)
            #expect(id == 8)
            #expect(parts == [Data([1]), Data([2, 3])])
        }
    }

    @Test func `all modules together`() throws {
        for isDone in try [MacFiles6.everything(), MacFiles5.everything()] { #expect(isDone) }
    }

    @Test func `a port keeps a thread alive`() {
        for isDone in [MacFiles6.KeptThread().calls {}, MacFiles5.KeptThread().calls {}] { #expect(isDone) }
    }

    @Test func `ports have numbers`() {
        for isDone in [MacFiles6.machPorts(), MacFiles5.machPorts()] { #expect(isDone) }
    }

    @Test func `a global port`() {
        let ids = MacFiles5.globals()
        #expect(ids == [1, 2, 3])
    }
}
