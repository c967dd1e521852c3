import Glibc
import Ports
import RunLoopLocks
import RunLoops

/// A port for the answers to one question after another, to one owner. A new port costs both sides a connection.
package final class SharedAnswerPort: Sendable {
    private let port = Lock<MachPort?>(nil)

    package init() {}

    deinit { port.withLock { $0.take() }?.invalidate() }

    fileprivate func take() -> MachPort? { port.withLock { $0.take() } }

    /// Takes a port back at which no other answer is to come.
    fileprivate func give(_ port: MachPort) { self.port.withLock { $0 = port } }
}

/// A question to a port's owner, and the port for the answers. The owner learns of the end of that port.
final class PendingQuestion: Sendable {
    let deadline: ContinuousClock.Instant?
    private let right: MachPort.SendRight
    private let question: PortQuestion
    private let answers: MachPort
    private let shared: SharedAnswerPort?
    private let outcome = Outcome()
    /// Ends the wait with the end of the asked port, or of its process.
    private let end: InvalidationWatch

    /// The only answer or the end of the asked port: the earlier one. After the answer, the port for answers may be another
    /// question's, which the end does not concern.
    private final class Outcome: Sendable {
        enum Event { case answer, end }

        private let first = Lock<Event?>(nil)

        /// - Returns: Whether the event came first.
        @discardableResult
        func note(_ event: Event) -> Bool {
            first.withLock { first in
                first = first ?? event
                return first == event
            }
        }

        var isAnswer: Bool { first.withLock { $0 == .answer } }
    }

    /// - Parameter shared: Lends the port for the answer to a question with one answer.
    init(
        _ question: PortQuestion, to right: MachPort.SendRight, before deadline: ContinuousClock.Instant?,
        answerAt shared: SharedAnswerPort? = nil
    ) throws(PortError) {
        answers = if let lent = shared?.take() { lent } else { try right.makeAnswerPort() }
        (self.right, self.question, self.deadline, self.shared) = (right, question, deadline, shared)
        end = InvalidationWatch(right) { [weak answers, outcome] in
            if outcome.note(.end) { answers?.invalidate() }
        }
    }

    deinit {
        end.cancel()
        if let shared, outcome.isAnswer { shared.give(answers) } else { answers.invalidate() }
    }

    // MARK: The only answer

    /// The time until the next attempt to ask a busy owner.
    private static let pause = Duration.milliseconds(50)

    /// Whether a busy owner is asked again.
    private var mayRepeat: Bool { deadline.map { .now + Self.pause < $0 } ?? true }

    /// Asks until the owner has time, and waits for the answer.
    @available(*, noasync)
    func answer<Answer: Decodable>() throws(PortError) -> Answer {
        while true {
            do throws(PortError) {
                return try firstAnswer()
            } catch .busy where mayRepeat {
                _ = Latch().wait(until: .now + Self.pause)
            }
        }
    }

    nonisolated(nonsending) func answer<Answer: Decodable & Sendable>() async throws -> Answer {
        while true {
            do {
                return try await firstAnswer()
            } catch PortError.busy where mayRepeat {
                try await Task.sleep(for: Self.pause)
            }
        }
    }

    @available(*, noasync)
    func firstAnswer<Answer: Decodable>() throws(PortError) -> Answer {
        try ask()
        return try present(next(before: deadline))
    }

    nonisolated(nonsending) func firstAnswer<Answer: Decodable & Sendable>() async throws -> Answer {
        try await ask()
        return try present(await next(before: deadline))
    }

    private func present<Answer>(_ answer: Answer?) throws(PortError) -> Answer {
        guard let answer else { throw .becameInvalid(port: right.identity) }
        // A port for further answers ends with the asked port.
        if shared != nil { outcome.note(.answer) }
        return answer
    }

    // MARK: Several answers

    @available(*, noasync)
    func ask() throws(PortError) { try right.ask(question, answers: answers, before: deadline) }

    nonisolated(nonsending) func ask() async throws {
        try await right.ask(question, answers: answers, before: deadline)
    }

    /// Waits for the next answer.
    /// - Returns: Nil when there is no further one.
    @available(*, noasync)
    func next<Answer: Decodable>(before deadline: ContinuousClock.Instant?) throws(PortError) -> Answer? {
        let message: MachPort.Message
        do throws(PortError) { message = try answers.receive(before: deadline) } catch { throw asked(error) }
        return try value(of: message)
    }

    nonisolated(nonsending) func next<Answer: Decodable & Sendable>(
        before deadline: ContinuousClock.Instant?
    ) async throws -> Answer? {
        let message: MachPort.Message
        do {
            message = try await answers.receive(before: deadline)
        } catch let error as PortError {
            throw asked(error)
        }
        return try value(of: message)
    }

    /// The error of the asked port for one of the port for the answers.
    private func asked(_ error: PortError) -> PortError {
        switch error {
        case .receiveTimedOut: right.noAnswer()
        case .isInvalid, .becameInvalid: .becameInvalid(port: right.identity)
        default: error
        }
    }

    private func value<Answer: Decodable>(of message: MachPort.Message) throws(PortError) -> Answer? {
        switch AnswerKind(rawValue: message.id) {
        case .end: return nil
        case .noPort: throw .becameInvalid(port: right.identity)
        case .busy: throw .busy(port: right.identity)
        case .value, nil:
            let bytes = message.withBytes { bytes in bytes.withUnsafeBytes { Array($0) } } ?? []
            if let value = BoundedCoding.decode(Answer.self, from: bytes) { return value }
            throw .transport(call: "decoding the answer of the owner of \(right.identity)", errno: EBADMSG)
        }
    }
}
