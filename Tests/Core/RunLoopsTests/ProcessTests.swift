import Glibc
import OwnThread
import Testing

/// What concerns a whole process, and so is tried in one of its own.
@Suite(.ownThread) struct ProcessTests {
    @Test func `a forked child is refused its parent's loops, and the parent notices nothing`() {
        #expect(helper("fork") == 0)
    }

    @Test func `a signal handler may stop and wake a loop whose lock the thread below it holds`() {
        #expect(helper("signal-handlers") == 0)
    }

    @Test func `the main actor, the main queue and sleeping tasks live on the main loop`() {
        #expect(helper("main-thread") == 0)
    }

    @Test func `an async main stays on the process's first thread`() {
        #expect(helper("first-thread", of: "AsyncMainHelper") == 0)
    }

    @Test(arguments: ["local", "timer", "main-actor", "actor"])
    func `what belongs to one thread stops the process on another`(_ what: String) {
        expectTrap(helper("misuse-\(what)"))
    }

    @Test(arguments: ["callout", "inner"])
    func `a run that is driven out of turn stops the process`(_ what: String) {
        expectTrap(helper("misuse-driven-\(what)"))
    }

    @Test(arguments: ["eventpoll", "eventfd", "timerfd"])
    func `a loop's own descriptor closed behind its back stops the process`(_ kind: String) {
        expectTrap(helper("misuse-\(kind)"))
    }

    private func expectTrap(_ status: Int32) {
        // Whichever signal the processor's trap is.
        #expect(status == -SIGILL || status == -SIGTRAP, "\(status)")
    }
}
