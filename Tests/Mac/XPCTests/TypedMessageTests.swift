import Dispatch
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

@testable import XPC

/// Typed messages between a listener and its clients.
@Suite(.ownThread) struct TypedMessageTests {
    private let names = Names()

    private func echo(_ request: XPCListener.IncomingSessionRequest) -> XPCListener.IncomingSessionRequest.Decision {
        request.accept { (question: Question) in Answer(text: "\(question.number)") }
    }

    @Test func `a message gets its reply in all forms of sending`() throws {
        let listener = try names.listener(echo)
        let session = try names.session()
        let answer: Answer = try session.sendSync(Question(number: 1))
        #expect(answer == Answer(text: "1"))
        #expect(try session.sendSync(Question(number: 2)).decode(as: Answer.self) == Answer(text: "2"))

        let (texts, both) = (Shared<[String]>([]), Latch())
        let note: @Sendable (String) -> Void = { text in
            if texts.withLock({
                $0.append(text); return $0.count
            }) == 2 {
                both.open()
            }
        }
        try session.send(Question(number: 3)) { (reply: Result<Answer, any Error>) in note("\(reply.map(\.text))") }
        try session.send(Question(number: 4)) { (reply: Result<XPCReceivedMessage, XPCRichError>) in
            note("\(reply.map { (try? $0.decode(as: Answer.self))?.text ?? "undecodable" })")
        }
        #expect(both.wait(until: .patience))
        #expect(texts.withLock { $0 } == [#"success("3")"#, #"success("4")"#])
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `the messages of both ends arrive in order, also those before the session is accepted`() throws {
        let (numbers, all) = (Shared<[Int]>([]), Latch())
        let listener = try names.listener { request in
            let (decision, session) = request.accept { (question: Question) -> (any Encodable)? in nil }
            session.setIncomingMessageHandler { [weak session] (question: Question) in
                try? session?.send(question)
                return nil
            }
            return decision
        }
        let session = try names.session(incoming: { message in
            guard let question = try? message.decode(as: Question.self) else { return nil }
            if numbers.withLock({
                $0.append(question.number); return $0.count
            }) == 500 {
                all.open()
            }
            return nil
        })
        for number in 0..<500 { try session.send(Question(number: number)) }
        #expect(all.wait(until: .patience))
        #expect(numbers.withLock { $0 } == Array(0..<500))
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a received message says whether its sender waits for the reply`() throws {
        let listener = try names.listener { request in
            request.accept { (message: XPCReceivedMessage) -> (any Encodable)? in
                Answer(text: "\(message.expectsReply) \(message.isSync)")
            }
        }
        let session = try names.session()
        let sync: Answer = try session.sendSync(Question(number: 1))
        #expect(sync.text == "true true")
        let (text, done) = (Shared(""), Latch())
        try session.send(Question(number: 1)) { (reply: Result<Answer, any Error>) in
            text.withLock { $0 = (try? reply.get().text) ?? "\(reply)" }
            done.open()
        }
        #expect(done.wait(until: .patience))
        #expect(text.withLock { $0 } == "true false")
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a reply may come later, from another queue`() throws {
        let queue = DispatchQueue(label: "replies")
        let listener = try names.listener { request in
            request.accept { (message: XPCReceivedMessage) -> (any Encodable)? in
                message.handoffReply(to: queue) { message.reply(Answer(text: "later")) }
            }
        }
        let session = try names.session()
        let answer: Answer = try session.sendSync(Question(number: 1))
        #expect(answer.text == "later")
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a handler without a reply ends its sender's wait with an error`() throws {
        let listener = try names.listener { request in
            request.accept { (message: XPCReceivedMessage) -> (any Encodable)? in nil }
        }
        let session = try names.session()
        let error = #expect(throws: XPCRichError.self) { let _: Answer = try session.sendSync(Question(number: 1)) }
        #expect(error?.canRetry == true)
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a message or reply of another type is an error, and the session goes on`() throws {
        let listener = try names.listener(echo)
        let session = try names.session()
        let error = #expect(throws: XPCRichError.self) {
            let _: Answer = try session.sendSync(Answer(text: "no question"))
        }
        #expect(error?.description.contains("the message is no Question") == true)
        #expect(throws: DecodingError.self) { let _: Question = try session.sendSync(Question(number: 1)) }
        let answer: Answer = try session.sendSync(Question(number: 2))
        #expect(answer.text == "2")
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `handlers run on the target queue, one at a time`() throws {
        let (key, queue) = (DispatchSpecificKey<Int>(), DispatchQueue(label: "target", attributes: .concurrent))
        queue.setSpecific(key: key, value: 7)
        let running = Shared(0)
        let core = ListenerCore(ListenerSettings(targetQueue: queue)) { request in
            let isOnQueue = DispatchQueue.getSpecific(key: key) == 7
            return request.accept { (question: Question) in
                let before = running.withLock {
                    $0 += 1; return $0
                }
                defer { running.withLock { $0 -= 1 } }
                return Answer(text: "\(isOnQueue) \(DispatchQueue.getSpecific(key: key) == 7) \(before)")
            }
        }
        _ = try core.makePort(name: "service", names.runtime.nameServer)
        try core.activate()
        let session = try names.session()
        let (texts, all) = (Shared<[String]>([]), Latch())
        for number in 0..<50 {
            try session.send(Question(number: number)) { (reply: Result<Answer, any Error>) in
                let text = (try? reply.get().text) ?? "\(reply)"
                if texts.withLock({
                    $0.append(text); return $0.count
                }) == 50 {
                    all.open()
                }
            }
        }
        #expect(all.wait(until: .patience))
        #expect(Set(texts.withLock { $0 }) == ["true true 1"])
        session.cancel(reason: "done")
        core.cancel()
    }

    @Test func `messages without a cost for the session keep their number from many threads`() throws {
        let listener = try names.listener(echo)
        let session = try names.session()
        let sum = Shared(0)
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for number in 0..<50 {
                let answer: Answer? = try? session.sendSync(Question(number: thread * 50 + number))
                if answer?.text == "\(thread * 50 + number)" { sum.withLock { $0 += 1 } }
            }
        }
        #expect(sum.withLock { $0 } == 400)
        session.cancel(reason: "done")
        listener.cancel()
    }
}
