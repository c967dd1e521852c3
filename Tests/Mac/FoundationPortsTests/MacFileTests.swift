import Foundation
import FoundationPorts
import MacFiles5
import MacFiles6
import MigratedMacFiles
import OwnThread
import TestSupport
import Testing

/// The files of `Tests/Mac/MacFiles` do what they do on macOS.
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

    // The files that ports-migrate has moved over.

    @Test func `a migrated server answers a migrated client`() throws {
        let name = "com.example.answerer.\(UUID().uuidString)"
        let answerer = try #require(Answerer(name: name))
        #expect(Answerer(name: name) == nil)
        let (answers, loop) = (Answers(), try #require(CFRunLoopGetCurrent()))
        Thread {
            answers.lines = Asker.ask(["to", "be"], of: name)
            CFRunLoopStop(loop)
        }.start()
        #expect(CFRunLoopRunInMode(.defaultMode, 60, false) == .stopped)
        answerer.close()
        #expect(answers.lines == ["to be", "to be", "to be"])
        #expect(answerer.log == ["open: \(name)", "question 7", "question 7", "question 7", "invalid"])
        #expect(Asker.pid == getpid())
    }

    @Test func `migrated timers, observers and threads call their methods`() {
        let ticker = Ticker()
        ticker.start(0.02)
        let end = Date(timeIntervalSinceNow: 60)
        while ticker.lines.count < 5, RunLoop.current.run(mode: .default, before: end) {}
        #expect(waitUntil { ticker.callsBeside > 0 })
        #expect(ticker.lines.filter { $0 == "tick" }.count == 2)
        for line in ["first true", "later true", "ended true"] { #expect(ticker.lines.contains(line)) }
    }
}

private final class Answers: @unchecked Sendable {
    private let stored = NSLock()
    private var storedLines: [String] = []
    var lines: [String] {
        get { stored.withLock { storedLines } }
        set { stored.withLock { storedLines = newValue } }
    }
}
