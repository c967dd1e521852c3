import Foundation
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing
import XPCTestHelper

@testable import XPC

/// Anonymous listeners, whose endpoints travel in messages.
@Suite(.ownThread) struct EndpointTests {
    private struct Callback: Codable, Sendable {
        var endpoint: XPCEndpoint
        var text: String
    }

    private let names = Names()

    private func anonymous() -> XPCListener {
        XPCListener { request in
            request.accept { (question: Question) in Answer(text: "anonymous \(question.number)") }
        }
    }

    @Test func `the localized description of an error is its sentence`() throws {
        let error = #expect(throws: XPCRichError.self) { try XPCSession(machService: "com.example.nobody") }
        #expect(error?.localizedDescription == error?.description)
    }

    @Test func `a session with an endpoint reaches its anonymous listener`() throws {
        let listener = anonymous()
        let session = try XPCSession(endpoint: listener.endpoint)
        let answer: Answer = try session.sendSync(Question(number: 1))
        #expect(answer.text == "anonymous 1")
        session.cancel(reason: "done")
        listener.cancel()
        #expect(throws: XPCRichError.self) { _ = try XPCSession(endpoint: listener.endpoint) }
    }

    @Test func `endpoints travel in typed messages and in dictionaries`() throws {
        let target = anonymous()
        let listener = try names.listener { request in
            request.accept { (callback: Callback) -> (any Encodable)? in
                do {
                    let session = try XPCSession(endpoint: callback.endpoint)
                    let answer: Answer = try session.sendSync(Question(number: 2))
                    session.cancel(reason: "done")
                    return Answer(text: "\(callback.text): \(answer.text)")
                } catch {
                    return Answer(text: "\(error)")
                }
            }
        }
        let session = try names.session()
        let answer: Answer = try session.sendSync(Callback(endpoint: target.endpoint, text: "called"))
        #expect(answer.text == "called: anonymous 2")
        session.cancel(reason: "done")

        var dictionary = XPCDictionary()
        dictionary["endpoint"] = target.endpoint
        let echo = XPCListener { request in request.accept { (message: XPCDictionary) -> XPCDictionary? in message } }
        let raw = try XPCSession(endpoint: echo.endpoint)
        let reply = try raw.sendSync(message: dictionary)
        #expect(reply["endpoint"] == target.endpoint)
        raw.cancel(reason: "done")
        for listener in [target, listener, echo] { listener.cancel() }
    }

    @Test func `an endpoint is encoded only in a message`() {
        let listener = anonymous()
        #expect(throws: EncodingError.self) { _ = try JSONEncoder().encode(listener.endpoint) }
        listener.cancel()
    }

    @Test func `another process calls an anonymous listener back`() throws {
        let service = try names.startService()
        let (texts, called) = (Shared<[String]>([]), Latch())
        let listener = try names.listener(named: nil) { request in
            request.accept { (report: Report) -> (any Encodable)? in
                texts.withLock { $0.append(report.text) }
                called.open()
                return nil
            }
        }
        let session = try names.session()
        var command = Command(.call, "back")
        command.endpoint = listener.endpoint
        let report: Report = try session.sendSync(command)
        #expect(report.text == "called")
        #expect(called.wait(until: .patience))
        #expect(texts.withLock { $0 } == ["back"])
        session.cancel(reason: "done")
        listener.cancel()
        #expect(service.isRunning)
    }
}
