import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Systemd

/// A service that works sends signs of life, and one that is stuck sends none.
@Suite(.ownThread) struct WatchdogTests {
    private let manager = ManagerDouble()
    private let period = Duration.milliseconds(400)

    private func start(_ way: String) -> Child {
        Child(
            ["\(Child.folder)/SystemdTestHelper", way],
            environment: [
                "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "\(Int(period / .microseconds(1)))",
                // A registry directory that another user's programs have may be there.
                "PORTS_DIRECTORY": folder.path,
            ])
    }

    private let folder = TemporaryFolder()

    private var connection: ManagerConnection {
        ManagerConnection(
            ManagerEnvironment([
                "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "\(Int(period / .microseconds(1)))",
            ]))
    }

    @Test(arguments: [
        ("loop", "STATUS=has been stalled for "), ("tasks", nil), ("actor", nil),
        ("server", "STATUS=the watchdog's check fails: nothing arrived "),
    ])
    func `a service sends signs of life until it is stuck, and shows the reason where it can`(
        _ way: String, _ reason: String?
    ) {
        let service = start(way)
        #expect(manager.receives { $0 == "READY=1" })
        for _ in 0..<5 { #expect(manager.receives { $0 == "WATCHDOG=1" }) }
        service.signal(SIGUSR1)
        if let reason { #expect(manager.receives { $0.hasPrefix(reason) }) }
        #expect(manager.losesSigns(for: period * 2))
        #expect(service.isRunning)
    }

    @Test func `a loop's timer ends the signs of life when it is invalidated, and has a stall reported`() throws {
        let (connection, manager) = (connection, manager)
        #expect(try connection.notify([.status("works")], before: .patience))
        #expect(manager.next()?.lines == ["STATUS=works"])
        let isReported = Latch()
        let thread = try RunLoopThread()
        let timer = try #require(try connection.addWatchdog(to: thread.loop, forMode: .common, of: getpid()))
        #expect(manager.next()?.lines == ["WATCHDOG=1"])
        try thread.loop.perform { _ = isReported.wait(until: .patience) }
        #expect(manager.nextNews()?.lines.first?.hasPrefix("STATUS=has been stalled for ") == true)
        isReported.open()
        // Further reports may come before.
        #expect(manager.receives { $0 == "STATUS=works" })
        #expect(manager.receives { $0 == "WATCHDOG=1" })
        timer.invalidate()
        #expect(manager.losesSigns(for: period * 2))
    }

    @Test func `a check that fails sends no signs of life, and its error is the status until it succeeds`() async throws
    {
        struct Failure: Error, CustomStringConvertible { let description = "no database" }
        let (connection, manager) = (connection, manager)
        let isWorking = Shared(false)
        let watchdog = Task {
            try await connection.runWatchdog(of: getpid()) { timeout in
                #expect(timeout == .milliseconds(100))
                if !isWorking.withLock({ $0 }) { throw Failure() }
            }
        }
        #expect(manager.next()?.lines == ["STATUS=the watchdog's check fails: no database"])
        isWorking.withLock { $0 = true }
        #expect(manager.next()?.lines == ["WATCHDOG=1"])
        #expect(manager.next()?.lines == ["STATUS="])
        #expect(manager.next()?.lines == ["WATCHDOG=1"])
        watchdog.cancel()
        try await watchdog.value
    }

    @Test func `a watchdog of a process that nobody watches waits for its cancellation`() async throws {
        let connection = ManagerConnection(ManagerEnvironment([:]))
        let watchdog = Task { try await connection.runWatchdog(of: getpid()) { _ in Issue.record("a check") } }
        watchdog.cancel()
        try await watchdog.value
    }
}
