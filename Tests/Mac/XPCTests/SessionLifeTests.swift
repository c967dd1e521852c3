import Dispatch
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports
@testable import XPC

/// How sessions and listeners begin and end inside a process.
@Suite(.ownThread) struct SessionLifeTests {
    private let names = Names()

    private func echo(_ request: XPCListener.IncomingSessionRequest) -> XPCListener.IncomingSessionRequest.Decision {
        request.accept { (question: Question) in Answer(text: "\(question.number)") }
    }

    @Test func `a request that a service has failed, as by a crash, may be sent again`() {
        let port = PortIdentity(PortID(incarnation: .random(), number: 1), name: "service")
        let failure = RequestFailure("it was ended by signal 11")
        #expect(XPCRichError(PortError.failed(port: port, failure)).canRetry)
        let unknown = RequestFailure(components: [], isUnknownRequest: true)
        #expect(!XPCRichError(PortError.failed(port: port, unknown)).canRetry)
    }

    @Test func `an error of a message names the service`() throws {
        let port = try MachPort().identity
        func text(_ error: PortError) -> String { XPCRichError(error, inSessionWith: "the service “a.b”").description }
        #expect(
            text(.isInvalid(port: port))
                == "the service “a.b” has ended, or has cancelled the session: make a new session")
        #expect(text(.becameInvalid(port: port)).contains("and may have handled the message: make a new session"))
        #expect(text(.sendTimedOut(port: port)).hasPrefix("the session with the service “a.b”: \(port) had no room "))
    }

    @Test func `a session without a listener throws an error that may be retried`() {
        let error = #expect(throws: XPCRichError.self) { _ = try names.session("nobody") }
        #expect(error?.canRetry == true)
        #expect(error?.description.contains("nobody") == true)
    }

    @Test func `an end on the library's thread waits for no connection`() throws {
        struct Peer: XPCPeerHandler {
            func handleIncomingRequest(_ message: XPCReceivedMessage) -> (any Encodable)? { Answer(text: "") }
        }
        // As in another process, whose news come by the thread that ends the session.
        let far = PortRuntime(directory: names.folder.path)
        let sessions = Shared<[XPCSession]>([])
        let listener = try XPCListener(name: "service", nameServer: far.nameServer, ListenerSettings(), .none) {
            request in
            request.accept { session in
                sessions.withLock { $0.append(session) }
                return Peer()
            }
        }
        let session = try names.session()
        let _: Answer = try session.sendSync(Question(number: 1))
        let (time, done) = (Shared(Duration.zero), Latch())
        try names.runtime.housekeeping.perform {
            for session in sessions.withLock({ $0 }) { session.cancel(reason: "first") }
            time.withLock { $0 = ContinuousClock().measure { session.cancel(reason: "second") } }
            done.open()
        }
        #expect(done.wait(until: .patience))
        #expect(time.withLock { $0 } < .milliseconds(500))
        listener.cancel()
    }

    @Test func `a second listener with the same name throws`() throws {
        let listener = try names.listener(echo)
        let error = #expect(throws: XPCRichError.self) { _ = try names.listener(echo) }
        #expect(error?.canRetry == false)
        listener.cancel()
        let next = try names.listener(echo)
        next.cancel()
    }

    @Test func `an inactive listener keeps requests until it is active`() throws {
        let listener = try names.listener(options: .inactive, echo)
        let session = try names.session()
        let (text, done) = (Shared(""), Latch())
        try session.send(Question(number: 5)) { (reply: Result<Answer, any Error>) in
            text.withLock { $0 = (try? reply.get().text) ?? "\(reply)" }
            done.open()
        }
        #expect(!done.isOpen)
        try listener.activate()
        #expect(throws: XPCRichError.self) { try listener.activate() }
        #expect(done.wait(until: .patience))
        #expect(text.withLock { $0 } == "5")
        session.cancel(reason: "done")
        listener.cancel()
        #expect(throws: XPCRichError.self) { try listener.activate() }
    }

    @Test func `an inactive session sends nothing, and begins once`() throws {
        let listener = try names.listener(echo)
        let session = try names.session(options: .inactive)
        #expect(throws: XPCRichError.self) { try session.send(Question(number: 1)) }
        try session.activate()
        #expect(throws: XPCRichError.self) { try session.activate() }
        let answer: Answer = try session.sendSync(Question(number: 1))
        #expect(answer.text == "1")
        session.cancel(reason: "done")
        #expect(throws: XPCRichError.self) { try session.activate() }
        listener.cancel()
    }

    @Test func `a rejected session ends with the reason, and so do its messages`() throws {
        let listener = try names.listener { $0.reject(reason: "closed today") }
        let ends = Ends()
        let session = try names.session(cancellation: ends.handler)
        #expect(throws: XPCRichError.self) { let _: Answer = try session.sendSync(Question(number: 1)) }
        #expect(ends.wait()?.description.contains("closed today") == true)
        let error = #expect(throws: XPCRichError.self) { try session.send(Question(number: 1)) }
        #expect(error?.description.contains("closed today") == true)
        listener.cancel()
        #expect(ends.all.count == 1)
    }

    @Test func `a cancelled session ends both ends once, and its requests`() throws {
        let (ends, peerEnds, kept) = (Ends(), Ends(), Shared<[XPCReceivedMessage]>([]))
        let listener = try names.listener { request in
            request.accept(
                incomingMessageHandler: { (message: XPCReceivedMessage) -> (any Encodable)? in
                    kept.withLock { $0.append(message) }
                    return nil
                }, cancellationHandler: peerEnds.handler)
        }
        let session = try names.session(cancellation: ends.handler)
        let (failed, error) = (Latch(), Shared<XPCRichError?>(nil))
        try session.send(Question(number: 1)) { (reply: Result<XPCReceivedMessage, XPCRichError>) in
            if case .failure(let failure) = reply { error.withLock { $0 = failure } }
            failed.open()
        }
        let waiting = Helper { Result { try session.sendSync(Question(number: 2)) as XPCReceivedMessage } }
        #expect(waitUntil { kept.withLock { $0.count } == 2 })
        session.cancel(reason: "enough")
        session.cancel(reason: "twice")
        #expect(failed.wait(until: .patience))
        #expect(error.withLock { $0?.description.contains("enough") } == true)
        guard case .failure = waiting.value() else {
            Issue.record("sendSync has not ended")
            return
        }
        #expect(ends.wait()?.description.contains("enough") == true)
        #expect(peerEnds.wait()?.description.contains("enough") == true)
        listener.cancel()
        #expect(ends.all.count == 1)
        #expect(peerEnds.all.count == 1)
    }

    @Test func `a session that its listener cancels ends at the client, with the replies before`() throws {
        let ends = Ends()
        let listener = try names.listener { request in
            let (decision, session) = request.accept { (message: XPCReceivedMessage) -> (any Encodable)? in nil }
            session.setIncomingMessageHandler { [weak session] (message: XPCReceivedMessage) -> (any Encodable)? in
                message.reply(Answer(text: "last"))
                session?.cancel(reason: "closing time")
                return nil
            }
            // Somebody has to keep the listener's session, or take its messages from it.
            kept.withLock { $0.append(session) }
            return decision
        }
        let session = try names.session(cancellation: ends.handler)
        let answer: Answer = try session.sendSync(Question(number: 1))
        #expect(answer.text == "last")
        #expect(ends.wait()?.description.contains("closing time") == true)
        listener.cancel()
    }
    private let kept = Shared<[XPCSession]>([])

    @Test func `sessions outlive their listener`() throws {
        let listener = try names.listener(echo)
        let session = try names.session()
        let first: Answer = try session.sendSync(Question(number: 1))
        listener.cancel()
        let second: Answer = try session.sendSync(Question(number: 2))
        #expect([first.text, second.text] == ["1", "2"])
        session.cancel(reason: "done")
        #expect(throws: XPCRichError.self) { _ = try names.session() }
    }

    @Test func `a session that nobody refers to ends after its last reply`() throws {
        let peerEnds = Ends()
        let listener = try names.listener { request in
            request.accept(
                incomingMessageHandler: { (question: Question) in Answer(text: "\(question.number)") },
                cancellationHandler: peerEnds.handler)
        }
        let (text, done) = (Shared(""), Latch())
        try names.session().send(Question(number: 1)) { (reply: Result<Answer, any Error>) in
            text.withLock { $0 = (try? reply.get().text) ?? "\(reply)" }
            done.open()
        }
        #expect(done.wait(until: .patience))
        #expect(text.withLock { $0 } == "1")
        #expect(peerEnds.wait() != nil)
        listener.cancel()
    }

    @Test func `a listener that is not kept works until it is cancelled`() throws {
        _ = try names.listener(echo)
        let session = try names.session()
        let answer: Answer = try session.sendSync(Question(number: 1))
        #expect(answer.text == "1")
        session.cancel(reason: "done")
    }

    @Test func `a peer handler takes the messages and the end of its session`() throws {
        struct Handler: XPCPeerHandler {
            let ends: Ends
            func handleIncomingRequest(_ message: Question) -> (any Encodable)? { Answer(text: "\(message.number)") }
            func handleCancellation(error: XPCRichError) { ends.handler(error) }
        }
        let ends = Ends()
        let listener = try names.listener { request in request.accept { session in Handler(ends: ends) } }
        let session = try names.session()
        let answer: Answer = try session.sendSync(Question(number: 9))
        #expect(answer.text == "9")
        session.cancel(reason: "done")
        #expect(ends.wait() != nil)
        listener.cancel()
    }

    @Test func `a request from elsewhere is refused`() throws {
        let listener = try names.listener(echo)
        let remote = try RemoteMessagePort(name: "service", nameServer: names.runtime.nameServer)
        #expect(throws: PortError.self) { _ = try remote.request(id: 1, []) }
        #expect(throws: Never.self) { _ = try remote.request(id: SessionMessage.hello.rawValue, [1, 2, 3]) }
        try remote.send(id: 5)
        let session = try names.session()
        let answer: Answer = try session.sendSync(Question(number: 1))
        #expect(answer.text == "1")
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `ended sessions and listeners are released`() throws {
        weak var listenerSession: XPCSession?
        let accepted = Shared<XPCSession?>(nil)
        var listener: XPCListener? = try names.listener { request in
            request.accept { session in
                accepted.withLock { $0 = session }
                return Holder(session: session)
            }
        }
        var session: XPCSession? = try names.session()
        weak let core = session?.core
        let answer: Answer? = try session?.sendSync(Question(number: 1))
        #expect(answer?.text == "1")
        listenerSession = accepted.withLock { $0.take() }
        #expect(listenerSession != nil)
        session?.cancel(reason: "done")
        session = nil
        #expect(waitUntil { core == nil })
        #expect(waitUntil { listenerSession == nil })
        weak let released = listener
        listener?.cancel()
        listener = nil
        #expect(released == nil)
    }

    private struct Holder: XPCPeerHandler {
        let session: XPCSession
        func handleIncomingRequest(_ message: Question) -> (any Encodable)? { Answer(text: "\(message.number)") }
    }

    @Test func `a session with a port of another kind ends with an error`() throws {
        let port = try LocalMessagePort(name: "echo", nameServer: names.runtime.nameServer) { _, data in data }
        try port.setQueue(DispatchQueue(label: "echo"))
        let ends = Ends()
        let session = try names.session("echo", cancellation: ends.handler)
        #expect(throws: XPCRichError.self) { let _: Answer = try session.sendSync(Question(number: 1)) }
        #expect(ends.wait() != nil)
        port.invalidate()
    }
}
