import Dispatch
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing
import XPC

/// The forms in which files for macOS write the calls, with closures whose types the compiler infers.
@Suite(.ownThread) struct AppleFormsTests {
    private struct Peer: XPCPeerHandler, Sendable {
        func handleIncomingRequest(_ message: XPCReceivedMessage) -> (any Encodable)? { Answer(text: "peer") }
    }

    private static func performTask(with message: XPCReceivedMessage) -> Encodable? {
        do {
            let question = try message.decode(as: Question.self)
            return Answer(text: "\(question.number)")
        } catch {
            return nil
        }
    }

    private let name = "com.example.forms.\(UInt64.random(in: 0 ... .max))"

    /// Asks the service, and ends the session and the listener.
    private func ask(_ listener: XPCListener) throws -> String {
        defer { listener.cancel() }
        let session = try XPCSession(xpcService: name)
        defer { session.cancel(reason: "done") }
        let reply = try session.sendSync(Question(number: 3))
        let answer = try reply.decode(as: Answer.self)
        return answer.text
    }

    @Test func `a handler of received messages is inferred`() throws {
        let listener = try XPCListener(service: name) { request in
            request.accept { message in
                return Self.performTask(with: message)
            }
        }
        #expect(try ask(listener) == "3")
    }

    @Test func `a handler that hands its reply to a task is inferred`() throws {
        let listener = try XPCListener(service: name, targetQueue: .global()) { request in
            request.accept { message in
                message.handoffReply(to: .global(qos: .userInteractive)) {
                    Task { message.reply(Answer(text: "task")) }
                }
            }
        }
        #expect(try ask(listener) == "task")
    }

    @Test func `a peer handler is inferred`() throws {
        let listener = try XPCListener(service: name, requirement: .user(geteuid())) { request in
            request.accept { session in
                return Peer()
            }
        }
        #expect(try ask(listener) == "peer")
    }

    @Test func `an accepted session is returned beside the decision`() throws {
        let listener = try XPCListener(service: name) { request in
            let (decision, session) = request.accept { (question: Question) -> (any Encodable)? in
                Answer(text: "both")
            }
            session.setCancellationHandler { _ in }
            return decision
        }
        #expect(try ask(listener) == "both")
    }

    @Test func `the sessions of all forms send`() throws {
        let listener = try XPCListener(service: name, options: .inactive) { request in
            request.accept { (question: Question) in Answer(text: "\(question.number)") }
        }
        try listener.activate()
        defer { listener.cancel() }
        let sessions = [
            try XPCSession(machService: name),
            try XPCSession(machService: name, options: .privileged, requirement: .user(geteuid())),
            try XPCSession(machService: name, targetQueue: nil, cancellationHandler: { error in _ = error.canRetry }),
            try XPCSession(machService: name, incomingMessageHandler: { (answer: Answer) -> (any Encodable)? in nil }),
            try XPCSession(
                xpcService: name, incomingMessageHandler: { (message: XPCDictionary) -> XPCDictionary? in nil },
                cancellationHandler: nil),
            try XPCSession(endpoint: listener.endpoint),
        ]
        let (texts, all) = (Shared<[String]>([]), Latch())
        for session in sessions {
            try session.send(Question(number: 7)) { result in
                switch result {
                case .success(let reply):
                    let text = (try? reply.decode(as: Answer.self).text) ?? "undecodable"
                    let count = texts.withLock { texts in
                        texts.append(text)
                        return texts.count
                    }
                    if count == sessions.count { all.open() }
                case .failure(let error): texts.withLock { $0.append("\(error)") }
                }
            }
        }
        #expect(all.wait(until: .patience))
        #expect(texts.withLock { $0 } == Array(repeating: "7", count: sessions.count))
        for session in sessions { session.cancel(reason: "done") }
    }
}
