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

    // MARK: Handlers with names and with types of their own

    private final class Service: Sendable {
        let calls = Shared<[String]>([])

        func accept(_ request: XPCListener.IncomingSessionRequest) -> XPCListener.IncomingSessionRequest.Decision {
            calls.withLock { $0.append("accept") }
            return request.accept(incomingMessageHandler: perform(with:))
        }

        func perform(with message: XPCReceivedMessage) -> Encodable? {
            guard let question = try? message.decode(as: Question.self) else { return nil }
            return Answer(text: "method \(question.number)")
        }
    }

    @Test func `methods are handlers`() throws {
        let service = Service()
        let listener = try XPCListener(service: name, incomingSessionHandler: service.accept)
        #expect(try ask(listener) == "method 3")
        #expect(service.calls.withLock { $0 } == ["accept"])
    }

    @Test func `handlers with a reply of one type are inferred`() throws {
        let listener = try XPCListener(
            service: name, targetQueue: nil, options: [], requirement: .user(geteuid()),
            incomingSessionHandler: { request in
                request.accept(
                    incomingMessageHandler: { (question: Question) -> Answer? in Answer(text: "\(question.number)") },
                    cancellationHandler: nil)
            })
        #expect(try ask(listener) == "3")
        let next = try XPCListener(service: name) { request in
            let (decision, _) = request.accept(
                incomingMessageHandler: { (question: Question) -> Answer in Answer(text: "next \(question.number)") },
                cancellationHandler: nil)
            return decision
        }
        #expect(try ask(next) == "next 3")
    }

    @Test func `a handler of received messages that returns nothing is inferred`() throws {
        let listener = try XPCListener(service: name, targetQueue: .global()) { request in
            request.accept { (message: XPCReceivedMessage) in
                if let question = try? message.decode(as: Question.self) {
                    message.reply(Answer(text: "\(question.number) by hand"))
                }
                return nil
            }
        }
        #expect(try ask(listener) == "3 by hand")
    }

    /// Replies itself, and returns the reply, too.
    private struct TwoReplies: XPCPeerHandler {
        typealias Input = XPCDictionary
        typealias Output = XPCDictionary
        let session: XPCSession

        func handleIncomingRequest(_ request: XPCDictionary) -> XPCDictionary? {
            var reply = XPCDictionary()
            let command: String? = request["command"]
            reply["command"] = command
            reply["count"] = request["count", as: Int64.self, default: 7]
            request.reply(reply)
            try? session.send(message: ["kind": "ready"])
            return ["command": "second"]
        }

        func handleCancellation(error: XPCRichError) {}
    }

    @Test func `a peer handler with the types of dictionaries replies, and sends by its session`() throws {
        let listener = try XPCListener(service: name) { request in
            request.accept { (session: XPCSession) in
                session.setTargetQueue(.global())
                return TwoReplies(session: session)
            }
        }
        let kinds = Shared<[String?]>([])
        let session = try XPCSession(machService: name) { (message: XPCDictionary) -> XPCDictionary? in
            kinds.withLock { $0.append(message["kind"]) }
            return nil
        }
        let reply = try session.sendSync(message: ["command": "begin"])
        #expect(reply["command"] == "begin")
        #expect(reply["count"] == 7)
        #expect(waitUntil { kinds.withLock { $0 } == ["ready"] })
        session.cancel(reason: "done")
        listener.cancel()
    }

    // MARK: Sessions

    @Test func `a closure behind the options is the cancellation handler, and the rest is set before the activation`()
        throws
    {
        let listener = try XPCListener(service: name) { request in
            request.accept { (question: Question) in Answer(text: "\(question.number)") }
        }
        let (reasons, ended) = (Shared<[String]>([]), Latch())
        let session = try XPCSession(xpcService: name, options: .inactive) { error in
            reasons.withLock { $0.append(error.localizedDescription) }
            ended.open()
        }
        session.setPeerRequirement(.user(geteuid()))
        session.setTargetQueue(handlerQueue("set"))
        try session.activate()
        let answer = try session.sendSync(Question(number: 4)) as Answer
        #expect(answer.text == "4")
        session.cancel(reason: "done")
        #expect(ended.wait(until: .patience))
        #expect(reasons.withLock { $0.count } == 1)
        listener.cancel()
    }

    @Test func `an accepted session cannot send before the listener has returned its decision, and can then`() throws {
        let (sessions, errors) = (Shared<[XPCSession]>([]), Shared(0))
        let listener = try XPCListener(service: name) { request in
            let (decision, session) = request.accept { (question: Question) -> (any Encodable)? in
                Answer(text: "\(question.number)")
            }
            do { try session.send(Question(number: 0)) } catch is XPCRichError { errors.withLock { $0 += 1 } } catch {}
            sessions.withLock { $0.append(session) }
            return decision
        }
        let numbers = Shared<[Int]>([])
        let session = try XPCSession(machService: name) { (question: Question) -> (any Encodable)? in
            numbers.withLock { $0.append(question.number) }
            return nil
        }
        let _: Answer = try session.sendSync(Question(number: 1))
        try sessions.withLock { $0 }.first?.send(Question(number: 2))
        #expect(waitUntil { numbers.withLock { $0 } == [2] })
        #expect(errors.withLock { $0 } == 1)
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a listener's handler may activate the session that it accepts, and send`() throws {
        let errors = Shared(0)
        let listener = try XPCListener(service: name, options: [.inactive]) { request in
            let (decision, session) = request.accept { (question: Question) -> (any Encodable)? in
                Answer(text: "\(question.number)")
            }
            do {
                try session.activate()
                for number in 0..<100 { try session.send(Question(number: number)) }
            } catch { errors.withLock { $0 += 1 } }
            do { try session.activate() } catch is XPCRichError { errors.withLock { $0 += 10 } } catch {}
            return decision
        }
        try listener.activate()
        let numbers = Shared<[Int]>([])
        let session = try XPCSession(machService: name) { (question: Question) -> (any Encodable)? in
            numbers.withLock { $0.append(question.number) }
            return nil
        }
        let answer: Answer = try session.sendSync(Question(number: 8))
        #expect(answer.text == "8")
        #expect(waitUntil { numbers.withLock { $0.count } == 100 })
        #expect(numbers.withLock { $0 } == Array(0..<100))
        #expect(errors.withLock { $0 } == 10)
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a session that was activated and then rejected is released`() throws {
        let sessions = Shared<[XPCSession]>([])
        let listener = try XPCListener(service: name) { request in
            let (_, session) = request.accept { (question: Question) -> (any Encodable)? in nil }
            try? session.activate()
            sessions.withLock { $0.append(session) }
            return request.reject(reason: "not today")
        }
        let ended = Latch()
        let session = try XPCSession(machService: name, cancellationHandler: { _ in ended.open() })
        #expect(ended.wait(until: .patience))
        #expect(throws: XPCRichError.self) { try session.send(Question(number: 1)) }
        weak let released = sessions.withLock { $0.removeLast() }
        #expect(released == nil)
        listener.cancel()
    }

    @Test func `a session that its listener's handler cancels before it accepts is released`() throws {
        let (sessions, peerEnded, ended) = (Shared<[XPCSession]>([]), Latch(), Latch())
        let listener = try XPCListener(service: name) { request in
            let (decision, session) = request.accept(
                incomingMessageHandler: { (question: Question) -> (any Encodable)? in nil },
                cancellationHandler: { _ in peerEnded.open() })
            session.cancel(reason: "at once")
            sessions.withLock { $0.append(session) }
            return decision
        }
        let session = try XPCSession(machService: name, cancellationHandler: { _ in ended.open() })
        #expect(ended.wait(until: .patience) && peerEnded.wait(until: .patience))
        weak let released = sessions.withLock { $0.removeLast() }
        #expect(waitUntil { released == nil })
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a reply of a simple type, and a message that is decoded without a type`() throws {
        let listener = XPCListener(incomingSessionHandler: { request in
            request.accept(incomingMessageHandler: { (message: XPCReceivedMessage) -> (any Encodable)? in
                let question: Question? = try? message.decode()
                return question?.number == 2 && message.senderSatisfies(.user(geteuid()))
            })
        })
        let session = try XPCSession(endpoint: listener.endpoint)
        #expect(try session.sendSync(Question(number: 2)) as Bool)
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a file's own form of sending in tasks gets the reply`() async throws {
        let listener = try XPCListener(service: name) { request in
            request.accept { (question: Question) in Answer(text: "\(question.number)") }
        }
        let session = try XPCSession(machService: name)
        let answer: Answer = try await session.send(Question(number: 5))
        #expect(answer.text == "5")
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `all handlers of a listener and its sessions run on the target queue`() throws {
        let queue = handlerQueue("all")
        let (replied, ended, peerEnded) = (Latch(), Latch(), Latch())
        let listener = try XPCListener(service: name, targetQueue: queue) { request in
            dispatchPrecondition(condition: .onQueue(queue))
            return request.accept(
                incomingMessageHandler: { (question: Question) in
                    dispatchPrecondition(condition: .onQueue(queue))
                    return Answer(text: "\(question.number)")
                },
                cancellationHandler: { _ in
                    dispatchPrecondition(condition: .onQueue(queue))
                    peerEnded.open()
                })
        }
        let session = try XPCSession(
            machService: name, targetQueue: queue,
            cancellationHandler: { _ in
                dispatchPrecondition(condition: .onQueue(queue))
                ended.open()
            })
        try session.send(Question(number: 1)) { (_: Result<Answer, any Error>) in
            dispatchPrecondition(condition: .onQueue(queue))
            replied.open()
        }
        #expect(replied.wait(until: .patience))
        session.cancel(reason: "done")
        #expect(ended.wait(until: .patience) && peerEnded.wait(until: .patience))
        listener.cancel()
    }
}
