import RunLoopLocks

/// The facts about a port that has come from another process, or will.
final class PortArrival: Sendable {
    typealias Answer = @Sendable (_ request: UInt64, _ isThere: Bool) -> Void

    /// The questions of one process.
    private struct Questions {
        var requests: Set<UInt64> = []
        let answer: Answer
    }

    private struct State {
        /// The lender of a port that this process has borrowed.
        var lender: (any PortLender)?
        /// Waits for a port that was lent.
        var standby: (any StandbyPort)?
        /// The requests that have come with the port, for askers that do not know what has become of theirs, because the
        /// former owner has ended.
        var requests: Set<UInt64> = []
        /// The questions of askers, as long as the port has not come; nil afterwards.
        var questions: [Incarnation: Questions]?
        var questionCount = 0
        /// Set to the reason why requests are lost that the former owner had taken; nil where nobody gives one.
        var explanation: Promise<String?>?
        /// The number of askers that wait for it.
        var unexplained = 0
    }

    private let state = Lock(State())

    // MARK: Lending

    /// The lender that gets the port back when this process ends it; nil for a port that is not lent.
    var lender: (any PortLender)? { state.withLock { $0.lender }.flatMap { $0.isThere ? $0 : nil } }

    /// Whether the port is lent, also when the lender is not known to be there, as at the exit of this process.
    var isLent: Bool { state.withLock { $0.lender != nil } }

    var standby: (any StandbyPort)? { state.withLock { $0.standby } }

    func setLender(_ lender: (any PortLender)?) {
        // Released after the lock.
        let former = state.withLock { exchange(&$0.lender, with: lender) }
        withExtendedLifetime(former) {}
    }

    /// Lets askers wait until the port has come.
    func wait(_ standby: any StandbyPort) { state.withLock { ($0.standby, $0.questions) = (standby, [:]) } }

    // MARK: Requests

    /// The most questions of one process that wait for a lent port, and of all processes. Beyond that, a question is answered
    /// as if the request were not there.
    static let mostQuestions = (ofOne: 4096, ofAll: 65_536)

    /// The port has come with messages.
    func came(with messages: [LocalMessage]) {
        let (questions, requests) = state.withLock { state in
            state.requests.formUnion(messages.lazy.filter { $0.header.kind == .request }.map(\.header.request))
            return (state.questions.take() ?? [:], state.requests)
        }
        for asker in questions.values {
            for request in asker.requests { asker.answer(request, requests.contains(request)) }
        }
    }

    /// Calls the closure with whether a request has come with the port, when the port has come.
    func ask(for request: UInt64, of asker: Incarnation, _ answer: @escaping Answer) {
        let isThere = state.withLock { state -> Bool? in
            guard state.questions != nil else { return state.requests.contains(request) }
            var questions = state.questions?.removeValue(forKey: asker) ?? Questions(answer: answer)
            defer { state.questions?[asker] = questions }
            guard !questions.requests.contains(request) else { return nil }
            guard questions.requests.count < Self.mostQuestions.ofOne, state.questionCount < Self.mostQuestions.ofAll
            else { return false }
            questions.requests.insert(request)
            state.questionCount += 1
            return nil
        }
        if let isThere { answer(request, isThere) }
    }

    // MARK: Lost requests

    /// Lets ``whenExplained(_:)`` wait for ``explain(_:)``.
    func expectExplanation() { state.withLock { ($0.explanation, $0.unexplained) = (Promise(), 0) } }

    /// Whether the reason is still to come.
    var expectsExplanation: Bool { state.withLock { $0.explanation.map { $0.value == nil } ?? false } }

    /// The most askers that wait for a reason. A peer may ask for any number of requests that were never there.
    private static let mostUnexplained = 16_384

    /// Says why requests are lost that the former owner had taken, or that nobody knows.
    func explain(_ reason: String?) { state.withLock { $0.explanation }?.set(reason) }

    /// The reason, where it is known.
    var reason: String? { state.withLock { $0.explanation }?.value ?? nil }

    /// Calls the closure with the reason, when it is known; with nil where there is none.
    func whenExplained(_ body: @escaping @Sendable (String?) -> Void) {
        let explanation = state.withLock { state -> Promise<String?>? in
            guard let explanation = state.explanation, explanation.value == nil else { return state.explanation }
            state.unexplained += 1
            return state.unexplained > Self.mostUnexplained ? nil : explanation
        }
        guard let explanation else { return body(nil) }
        explanation.whenSet(body)
    }
}

extension [LocalMessage] {
    /// Tells the askers of the requests among the messages that those have gone with their port.
    /// - Parameter number: The port at the home that it has left.
    func tellMoved(from number: UInt64) {
        for message in self where message.header.kind == .request {
            message.replyRight?.tell(.requestMoved(number, request: message.header.request))
        }
    }
}
