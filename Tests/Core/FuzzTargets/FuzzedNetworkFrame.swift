import Ports

@testable import NATSPorts

/// The frames of requests over NATS, which other machines send.
enum FuzzedNetworkFrame {
    static func fault(in bytes: [UInt8]) -> String? {
        fault(in: bytes, Question.self) ?? fault(in: bytes, Answer.self)
    }

    private static func fault<Head: Codable & Sendable>(in bytes: [UInt8], _: Head.Type) -> String? {
        guard let frame = try? Frame<Head>(from: bytes) else { return nil }
        guard let again = try? Frame<Head>(from: frame.bytes) else { return "encoded, it is no frame" }
        // Not the bytes, in which the entries of a dictionary have any order.
        guard again.components == frame.components, again.bytes.count == frame.bytes.count else {
            return "encoded, it is another frame"
        }
        return nil
    }

    static let seeds: [[UInt8]] = {
        let questions: [Question] = [
            .request(id: 7), .stream(id: 7, window: 16), .release(["_INBOX.a.1", "_INBOX.a.2"]),
            .hold(asker: "_INBOX.a.", wantsAnswer: true, taken: [1: 2, 300: .max]),
        ]
        let answers: [Answer] = [
            .reply(id: 7), .failed(RequestFailure("a reason", data: [1, 2])), .busy(limit: 9), .refused, .unanswered,
            .begun(holder: "name.$ports.a"), .elements(number: 1, id: 7), .end(number: 1, nil),
            .end(number: 1, RequestFailure("a reason")), .held(holder: "name.$ports.a", sent: [1: 2]),
        ]
        let components: [[UInt8]] = [[0x61, 97], []]
        return questions.map { Frame($0, components).bytes } + answers.map { Frame($0, components).bytes }
    }()
}
