import Activation
import Glibc
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing
import XPCTestHelper

@testable import XPC

/// Services that start when a session begins, as launchd starts them on macOS.
@Suite(.fewAtATime) struct OnDemandTests {
    private let names = Names()

    /// Calls the closure while an activator has the name of the service.
    private func withActivator(_ lines: String..., body: @escaping @Sendable () throws -> Void) async throws {
        let services = names.folder.path + "/services"
        mkdir(services, 0o700)
        let text =
            [
                "[Service]", "ExecStart=\(Child.folder)/XPCTestHelper serve",
                "Environment=SWIFT_BACKTRACE=enable=no PORTS_DIRECTORY=\(names.folder.path)",
            ] + lines
        names.folder.write(Array(text.joined(separator: "\n").utf8), to: "services/service.service")
        let activator = try Activator(
            folder: services, logs: names.folder.path + "/log", nameServer: names.runtime.nameServer)
        let isReady = Latch()
        async let running: Void = activator.run { isReady.open() }
        // The calls of XPC block.
        let result = await withCheckedContinuation { continuation in
            _ = Helper {
                _ = isReady.wait(until: .patience)
                continuation.resume(returning: Result { try body() })
            }
        }
        activator.stop()
        try await running
        try result.get()
    }

    private func report(_ session: XPCSession, _ command: Command) throws -> String {
        let report: Report = try session.sendSync(command)
        return report.text
    }

    @Test func `the first session starts the service, and further ones go to the same process`() async throws {
        try await withActivator {
            let sessions = try (0..<3).map { _ in try names.session() }
            let processes = try sessions.map { try report($0, Command(.process)) }
            #expect(Set(processes).count == 1)
            #expect(processes.first != "\(getpid())")
            for session in sessions { session.cancel(reason: "done") }
        }
    }

    @Test func `a service that crashes in a request ends its sessions, and the next session starts it again`()
        async throws
    {
        try await withActivator {
            let ends = Ends()
            let session = try names.session(cancellation: ends.handler)
            let first = try report(session, Command(.process))
            let error = #expect(throws: XPCRichError.self) { try report(session, Command(.crash)) }
            #expect(error?.canRetry == true)
            #expect(ends.wait()?.canRetry == true)
            #expect(throws: XPCRichError.self) { try report(session, Command(.echo)) }
            let next = try names.session()
            let second = try report(next, Command(.process))
            #expect(second != first)
            next.cancel(reason: "done")
            #expect(ends.all.count == 1)
        }
    }

    @Test func `a service ends when it has nothing to do, and not while a session is open`() async throws {
        try await withActivator("IdleSec=100ms") {
            let ends = Ends()
            let session = try names.session(cancellation: ends.handler)
            let first = try report(session, Command(.process))
            // Far more than the time in the file.
            #expect(ends.wait(for: .milliseconds(600)) == nil)
            #expect(try report(session, Command(.process)) == first)
            session.cancel(reason: "done")
            let process = try #require(pid_t(first))
            #expect(waitUntil { kill(process, 0) != 0 })
            let next = try names.session()
            #expect(try report(next, Command(.process)) != first)
            next.cancel(reason: "done")
        }
    }

    @Test func `a program that cannot start is the reason for the end of a session`() async throws {
        try await withActivator("LimitAS=1M") {
            let ends = Ends()
            let session = try names.session(cancellation: ends.handler)
            #expect(throws: XPCRichError.self) { try report(session, Command(.echo)) }
            #expect(ends.wait()?.description.contains("has failed") == true)
        }
    }
}
