import Glibc
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing
import XPCTestHelper

@testable import XPC

/// Sessions with a service in another process, which is killed, stopped and restarted.
@Suite(.ownThread) struct ProcessTests {
    private let names = Names()

    private func report(_ session: XPCSession, _ command: Command) throws -> String {
        let report: Report = try session.sendSync(command)
        return report.text
    }

    @Test func `messages go both ways between processes, in order`() throws {
        let service = try names.startService()
        let (numbers, ends) = (Shared<[String]>([]), Ends())
        let session = try names.session(
            incoming: { message in
                if let report = try? message.decode(as: Report.self) { numbers.withLock { $0.append(report.text) } }
                return nil
            }, cancellation: ends.handler)
        #expect(try report(session, Command(.echo, "hello")) == "hello")
        #expect(try report(session, Command(.process)) == "\(service.pid)")
        #expect(try report(session, Command(.push, count: 300)) == "pushed")
        #expect(waitUntil { numbers.withLock { $0.count } == 300 })
        #expect(numbers.withLock { $0 } == (0..<300).map { "\($0)" })
        #expect(throws: XPCRichError.self) { try report(session, Command(.drop)) }
        session.cancel(reason: "done")
        #expect(ends.wait() != nil)
        #expect(ends.all.count == 1)
    }

    @Test func `a killed service ends its sessions once, and all requests`() throws {
        let service = try names.startService()
        let ends = Ends()
        let session = try names.session(cancellation: ends.handler)
        #expect(try report(session, Command(.echo, "hello")) == "hello")
        let (failures, all) = (Shared(0), Latch())
        for _ in 0..<10 {
            try session.send(Command(.keep)) { (reply: Result<XPCReceivedMessage, XPCRichError>) in
                guard case .failure = reply else { return }
                if failures.withLock({
                    $0 += 1; return $0
                }) == 10 {
                    all.open()
                }
            }
        }
        let waiting = Helper { Result { try session.sendSync(Command(.keep)) as XPCReceivedMessage } }
        #expect(try report(session, Command(.echo, "taken")) == "taken")
        service.kill()
        #expect(all.wait(until: .patience))
        guard case .failure = waiting.value() else {
            Issue.record("sendSync has not ended")
            return
        }
        #expect(ends.wait()?.canRetry == true)
        #expect(throws: XPCRichError.self) { try session.send(Command(.echo)) }
        #expect(throws: XPCRichError.self) { try report(session, Command(.echo)) }
        session.cancel(reason: "late")
        #expect(ends.all.count == 1)
    }

    @Test func `a new session finds the service that was restarted`() throws {
        var service = try names.startService()
        for _ in 0..<3 {
            let ends = Ends()
            let session = try names.session(cancellation: ends.handler)
            #expect(try report(session, Command(.process)) == "\(service.pid)")
            service.kill()
            service.wait()
            #expect(ends.wait() != nil)
            service = try names.startService()
        }
    }

    @Test func `a stopped service keeps a request waiting, which a cancellation ends`() throws {
        let service = try names.startService()
        let ends = Ends()
        let session = try names.session(cancellation: ends.handler)
        #expect(try report(session, Command(.echo, "hello")) == "hello")
        service.stop()
        let waiting = Helper { Result { try session.sendSync(Command(.echo)) as XPCReceivedMessage } }
        let sent = Latch()
        try session.send(Command(.echo)) { (_: Result<XPCReceivedMessage, XPCRichError>) in sent.open() }
        #expect(ends.all.isEmpty)
        session.cancel(reason: "enough")
        #expect(sent.wait(until: .patience))
        guard case .failure = waiting.value() else {
            Issue.record("sendSync has not ended")
            return
        }
        #expect(ends.wait()?.description.contains("enough") == true)
        service.signal(SIGCONT)
        let next = try names.session()
        #expect(try report(next, Command(.echo, "again")) == "again")
        #expect(try waitUntil { try report(next, Command(.ended)) == "1" })
        next.cancel(reason: "done")
        #expect(ends.all.count == 1)
    }

    @Test func `a stopped service goes on with its sessions`() throws {
        let service = try names.startService()
        let session = try names.session()
        #expect(try report(session, Command(.echo, "hello")) == "hello")
        service.stop()
        let waiting = Helper { Result { try session.sendSync(Command(.echo, "later")).decode(as: Report.self) } }
        service.signal(SIGCONT)
        #expect(try waiting.value()?.get().text == "later")
        session.cancel(reason: "done")
    }

    @Test func `a service that is stopped and then killed ends its sessions`() throws {
        let service = try names.startService()
        let ends = Ends()
        let session = try names.session(cancellation: ends.handler)
        #expect(try report(session, Command(.echo, "hello")) == "hello")
        service.stop()
        let waiting = Helper { Result { try session.sendSync(Command(.echo)) as XPCReceivedMessage } }
        service.kill()
        guard case .failure = waiting.value() else {
            Issue.record("sendSync has not ended")
            return
        }
        #expect(ends.wait()?.canRetry == true)
        #expect(ends.all.count == 1)
    }

    @Test func `a session with a stopped service begins when the service goes on, or ends`() throws {
        let service = try names.startService()
        // The connection to the service is there, so that its stop does not delay the search for its name.
        let first = try names.session()
        #expect(try report(first, Command(.echo, "hello")) == "hello")
        service.stop()
        let session = try names.session()
        let waiting = Helper { Result { try session.sendSync(Command(.echo, "later")).decode(as: Report.self) } }
        service.signal(SIGCONT)
        #expect(try waiting.value()?.get().text == "later")
        service.stop()
        let ends = Ends()
        let last = try names.session(cancellation: ends.handler)
        let lost = Helper { Result { try last.sendSync(Command(.echo)) as XPCReceivedMessage } }
        service.kill()
        guard case .failure = lost.value() else {
            Issue.record("sendSync has not ended")
            return
        }
        #expect(ends.wait() != nil)
        #expect(ends.all.count == 1)
    }

    @Test func `a session that the service cancels ends with the reason`() throws {
        let service = try names.startService()
        let ends = Ends()
        let session = try names.session(cancellation: ends.handler)
        #expect(throws: XPCRichError.self) { try report(session, Command(.cancel, "closing time")) }
        #expect(ends.wait()?.description.contains("closing time") == true)
        #expect(ends.all.count == 1)
        #expect(service.isRunning)
    }

    @Test func `a killed client ends its sessions at the listener once`() throws {
        let (ends, arrived) = (Ends(), Latch())
        let listener = try names.listener { request in
            request.accept(
                incomingMessageHandler: { (report: Report) -> (any Encodable)? in
                    arrived.open()
                    return nil
                }, cancellationHandler: ends.handler)
        }
        let client = Child(
            [Child.folder + "/XPCTestHelper", "connect"], environment: ["PORTS_DIRECTORY": names.folder.path])
        #expect(arrived.wait(until: .patience))
        client.kill()
        #expect(ends.wait()?.canRetry == true)
        listener.cancel()
        #expect(ends.all.count == 1)
    }

    /// Kills, stops, cancellations and restarts in orders that a seed draws.
    @Test(.timeLimit(.minutes(15)))
    func `sessions end once, and no call hangs, in every order of kills, stops and cancellations`() throws {
        var random = SplitMix64(seed: drawnSeed())
        for _ in 0..<12 {
            let service = try names.startService()
            let ends = (0..<3).map { _ in Ends() }
            let sessions = try ends.map { try names.session(cancellation: $0.handler) }
            let (outcomes, calls) = (Shared(0), Shared(0))
            var helpers: [Helper<Void>] = []
            var isStopped = false
            for _ in 0..<8 {
                let session = sessions[Int.random(in: 0..<3, using: &random)]
                switch Int.random(in: 0..<7, using: &random) {
                case 0: service.kill()
                case 1:
                    if !isStopped, service.isRunning { service.stop() }
                    isStopped = true
                case 2:
                    service.signal(SIGCONT)
                    isStopped = false
                case 3: session.cancel(reason: "drawn")
                case 4:
                    helpers.append(Helper { _ = try? session.sendSync(Command(.echo)) as XPCReceivedMessage })
                case 5:
                    do {
                        try session.send(Command(.keep)) { (_: Result<XPCReceivedMessage, XPCRichError>) in
                            outcomes.withLock { $0 += 1 }
                        }
                        calls.withLock { $0 += 1 }
                    } catch is XPCRichError {}
                default: try? session.send(Command(.echo))
                }
            }
            service.kill()
            service.wait()
            for end in ends { #expect(end.wait() != nil) }
            for helper in helpers { #expect(helper.value() != nil) }
            #expect(waitUntil { outcomes.withLock { $0 } == calls.withLock { $0 } })
            for end in ends { #expect(end.all.count == 1) }
        }
    }
}
