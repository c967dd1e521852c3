import Dispatch
import Glibc
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing
import XPCTestHelper

@testable import XPC

/// The order of messages and replies, and sends to an end without room.
@Suite(.ownThread) struct OrderTests {
    private let names = Names()

    /// The texts that the handlers of a session were called with.
    private final class Story: Sendable {
        private let texts = Shared<[String]>([])
        var all: [String] { texts.withLock { $0 } }
        func add(_ text: String) { texts.withLock { $0.append(text) } }
        var incoming: SessionState.IncomingHandler {
            { message in
                self.add((try? message.decode(as: Report.self).text) ?? "undecodable")
                return nil
            }
        }
    }

    private func tell(_ story: Story, _ session: XPCSession, _ command: Command) throws {
        try session.send(command) { (reply: Result<Report, any Error>) in
            story.add((try? reply.get().text) ?? "\(reply)")
        }
    }

    /// Gives a command again and again.
    private func expect(_ texts: [String], of verb: Command.Verb) throws {
        let service = try names.startService()
        let story = Story()
        let session = try names.session(incoming: story.incoming)
        for round in 1...30 {
            try tell(story, session, Command(verb, count: 20))
            #expect(waitUntil { story.all.count == round * 21 })
            #expect(story.all.suffix(21) == texts[...])
        }
        session.cancel(reason: "done")
        #expect(service.isRunning)
    }

    @Test func `a reply's handler is called after the messages that were sent before the reply`() throws {
        try expect((0..<20).map { "\($0)" } + ["pushed"], of: .push)
    }

    @Test func `a message's handler is called after the replies that were sent before the message`() throws {
        try expect(["replied"] + (0..<20).map { "\($0)" }, of: .replyAndPush)
    }

    @Test func `many requests keep their order with the messages on both ends`() throws {
        let service = try names.startService()
        let story = Story()
        let session = try names.session(incoming: story.incoming)
        var expected: [String] = []
        for _ in 0..<50 {
            try tell(story, session, Command(.replyAndPush, count: 3))
            try tell(story, session, Command(.push, count: 2))
            expected += ["replied", "0", "1", "2", "0", "1", "pushed"]
        }
        #expect(waitUntil { story.all.count == expected.count })
        #expect(story.all == expected)
        session.cancel(reason: "done")
        #expect(service.isRunning)
    }

    @Test func `a request without a reply does not keep the messages after it waiting`() throws {
        let service = try names.startService()
        let story = Story()
        let session = try names.session(incoming: story.incoming)
        try session.send(Command(.keep)) { (_: Result<XPCReceivedMessage, XPCRichError>) in story.add("kept") }
        try session.send(Command(.drop)) { (_: Result<XPCReceivedMessage, XPCRichError>) in story.add("dropped") }
        try tell(story, session, Command(.replyAndPush, count: 2))
        #expect(waitUntil { story.all.count == 4 })
        #expect(story.all.filter { $0 != "dropped" } == ["replied", "0", "1"])
        session.cancel(reason: "done")
        #expect(waitUntil { story.all.last == "kept" })
        #expect(service.isRunning)
    }

    @Test func `a request without a reply does not stand for a reply that a message waits for`() throws {
        let (requests, came) = (Shared<[MessagePortRequest]>([]), Latch())
        let port = try LocalMessagePort(name: nil, nameServer: names.runtime.nameServer) { request in
            requests.withLock { $0.append(request) }
            came.open()
        }
        try port.setQueue(DispatchQueue(label: "requests"))
        try port.sendRight.send(MachPort.Message(id: SessionMessage.laterMessage.rawValue), before: .patience)
        #expect(came.wait(until: .patience))
        let message = try #require(requests.withLock { $0.first })

        var state = SessionState()
        let (dropped, asked) = (state.ask(.handler { _ in }), state.ask(.handler { _ in }))
        #expect(state.end(dropped, .failure(XPCRichError("dropped")), isReply: false) != nil)
        guard case .outcome? = state.takeArrival() else { throw XPCRichError("the error waits") }
        // The other end has sent the message after its reply.
        state.arrivals.add(.init(request: message, kind: .laterMessage), after: 1)
        #expect(state.takeArrival() == nil)
        #expect(state.end(asked, .success(MachPort.Message(id: 0)), isReply: true) != nil)
        guard case .outcome? = state.takeArrival(), case .message? = state.takeArrival() else {
            throw XPCRichError("the message is not the last")
        }
    }

    @Test func `a synchronous reply waits for no message`() throws {
        let service = try names.startService()
        let (entered, leave) = (Latch(), Latch())
        let session = try names.session(incoming: { _ in
            entered.open()
            _ = leave.wait(until: .patience)
            return nil
        })
        let report: Report = try session.sendSync(Command(.push, count: 1))
        #expect(report.text == "pushed")
        #expect(entered.wait(until: .patience))
        let second: Report = try session.sendSync(Command(.echo, "while a handler runs"))
        #expect(second.text == "while a handler runs")
        leave.open()
        session.cancel(reason: "done")
        #expect(service.isRunning)
    }

    // MARK: Room

    @Test func `sends to a stopped process do not wait, and arrive in order when it goes on`() throws {
        let service = try names.startService()
        let story = Story()
        let session = try names.session(incoming: story.incoming)
        let _: Report = try session.sendSync(Command(.echo, "connected"))
        service.stop()
        let count = 20_000
        let time = try ContinuousClock().measure {
            for number in 0..<count { try session.send(Command(.note, "\(number)")) }
            try tell(story, session, Command(.notes))
        }
        // Far less than the time of one wait for room.
        #expect(time < .seconds(5))
        #expect(story.all.isEmpty)
        service.signal(SIGCONT)
        #expect(waitUntil { story.all.count == 1 })
        #expect(story.all == ["\(count) in order"])
        session.cancel(reason: "done")
    }

    @Test func `beyond the bound a send throws an error that may be retried, and what waits arrives`() throws {
        let service = try names.startService()
        let session = try names.session()
        let _: Report = try session.sendSync(Command(.echo, "connected"))
        service.stop()
        let text = String(repeating: "x", count: 1 << 20)
        var (sent, error) = (0, XPCRichError?.none)
        while error == nil, sent < 1000 {
            do {
                try session.send(Command(.note, text))
                sent += 1
            } catch let failure as XPCRichError {
                error = failure
            }
        }
        #expect(error?.canRetry == true)
        #expect(sent >= 60)
        let failed = Latch()
        #expect(throws: XPCRichError.self) {
            try session.send(Command(.note, text)) { (_: Result<Report, any Error>) in failed.open() }
        }
        service.signal(SIGCONT)
        let report = waitUntil { (try? session.sendSync(Command(.notes)).decode(as: Report.self)) != nil }
        #expect(report)
        let last: Report = try session.sendSync(Command(.notes))
        #expect(last.text == "\(sent) in order" || last.text == "\(sent) not in order")
        #expect(!failed.isOpen)
        session.cancel(reason: "done")
    }

    @Test func `a message that is too large is an error, and the session goes on in order`() throws {
        let service = try names.startService()
        let story = Story()
        let session = try names.session(incoming: story.incoming)
        let _: Report = try session.sendSync(Command(.echo, "connected"))
        let text = String(repeating: "x", count: 65 << 20)
        #expect(throws: XPCRichError.self) { try session.send(Command(.note, text)) }
        let failed = Latch()
        do {
            try session.send(Command(.echo, text)) { (reply: Result<Report, any Error>) in
                if case .failure = reply { failed.open() }
            }
        } catch {
            // The substitute of the first one may wait still, and leave no room.
            failed.open()
        }
        #expect(failed.wait(until: .patience))
        try tell(story, session, Command(.push, count: 2))
        #expect(waitUntil { story.all.count == 3 })
        #expect(story.all == ["0", "1", "pushed"])
        session.cancel(reason: "done")
        #expect(service.isRunning)
    }

    /// Sends more requests than a stopped process has room for.
    /// - Returns: Their number.
    private func askStopped(_ session: XPCSession, _ failures: Shared<Int>) throws -> Int {
        let count = 3000
        for _ in 0..<count {
            try session.send(Command(.echo)) { (reply: Result<Report, any Error>) in
                if case .failure = reply { failures.withLock { $0 += 1 } }
            }
        }
        return count
    }

    @Test func `a cancellation discards what waits, and ends its requests`() throws {
        let service = try names.startService()
        let (ends, failures) = (Ends(), Shared(0))
        let session = try names.session(cancellation: ends.handler)
        let _: Report = try session.sendSync(Command(.echo, "connected"))
        service.stop()
        let count = try askStopped(session, failures)
        session.cancel(reason: "enough")
        #expect(ends.wait()?.description.contains("enough") == true)
        #expect(failures.withLock { $0 } == count)
        service.signal(SIGCONT)
        #expect(ends.all.count == 1)
    }

    @Test func `a killed process ends the requests that wait for room`() throws {
        let service = try names.startService()
        let (ends, failures) = (Ends(), Shared(0))
        let session = try names.session(cancellation: ends.handler)
        let _: Report = try session.sendSync(Command(.echo, "connected"))
        service.stop()
        let count = try askStopped(session, failures)
        service.kill()
        #expect(ends.wait()?.canRetry == true)
        #expect(failures.withLock { $0 } == count)
        #expect(ends.all.count == 1)
    }
}
