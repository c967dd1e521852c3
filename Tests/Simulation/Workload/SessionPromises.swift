/// Records what the ends of XPC sessions do, and checks what they were promised.
final class SessionPromises: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    /// One end of a session.
    final class End: @unchecked Sendable {
        let process = machine.current.process
        /// The messages that were sent from here, and whose calls have not thrown.
        fileprivate(set) var sent: UInt32 = 0
        /// The last message that came here.
        fileprivate(set) var received: UInt32 = 0
        /// The requests that were sent from here, and have no outcome.
        fileprivate(set) var open: Set<UInt32> = []
        /// The message whose call has not returned.
        fileprivate var inCall: UInt32?
        /// The replies for handlers that were sent from here, or that came here.
        var replies: UInt32 = 0
        fileprivate(set) var isInHandler = false
        /// Whether this end was told its end.
        fileprivate(set) var isOver = false
        /// Whether this end has cancelled the session, or nobody refers to it any more.
        var isGivenUp = false

        fileprivate var isDisturbed: Bool { process.isDead || process.isExiting || process.failedCalls > 0 }
    }

    final class Session: @unchecked Sendable {
        let number: Int
        let client = End()
        /// Whether the client has it.
        var hasBegun = false
        /// The listener's end; nil until it has accepted the session.
        fileprivate(set) var server: End?

        fileprivate init(_ number: Int) { self.number = number }

        fileprivate func other(than end: End) -> End? { end === client ? server : client }
        fileprivate var ends: [End] { [client, server].compactMap(\.self) }
        /// Whether an end may have failed to send something.
        fileprivate var isDisturbed: Bool { server == nil || ends.contains(where: \.isDisturbed) }
    }

    /// Whether somebody has removed the directory, where the ends find each other's ports.
    var isDirectoryLost = false

    /// Whether a message may be lost, or a session may end without anybody's doing.
    private func isDisturbed(_ session: Session) -> Bool { isDirectoryLost || session.isDisturbed }

    private(set) var sessions: [Session] = []
    private(set) var outcomeCount = 0

    func begins() -> Session {
        let session = Session(sessions.count)
        sessions.append(session)
        machine.story.tell(machine) { "begins session \(session.number)" }
        return session
    }

    func accepts(_ number: Int) -> (Session, End) {
        guard sessions.indices.contains(number) else { machine.fail("a session came that nobody has begun") }
        let (session, end) = (sessions[number], End())
        if session.server != nil { machine.fail("session \(number) was accepted twice") }
        session.server = end
        machine.story.tell(machine) { "accepts session \(number)" }
        return (session, end)
    }

    // MARK: Messages

    /// The number of the next message.
    func next(from end: End) -> UInt32 { end.sent + 1 }

    func sends(_ number: UInt32, from end: End, wantsReply: Bool) {
        (end.sent, end.inCall) = (number, number)
        if wantsReply { end.open.insert(number) }
    }

    /// The call has returned.
    func sent(_ number: UInt32, from end: End, of session: Session) {
        end.inCall = nil
        if end.isOver { checkOutcomes(end, session) }
    }

    /// The call has thrown.
    func unsent(_ number: UInt32, from end: End) {
        (end.sent, end.inCall) = (number - 1, nil)
        end.open.remove(number)
    }

    /// “All handlers of a session are called one at a time, in the order in which the other end has sent.”
    /// - Parameter replies: The replies that the other end had sent before.
    func handle(
        _ number: UInt32, after replies: UInt32, at end: End, of session: Session, _ body: () -> Void
    ) {
        machine.story.tell(machine) { "takes message \(number) of session \(session.number)" }
        if number <= end.received {
            machine.fail("message \(number) of session \(session.number) came after \(end.received)")
        }
        let mayLose = isDisturbed(session)
        if number != end.received + 1, !mayLose {
            machine.fail("message \(end.received + 1) of session \(session.number) was lost, and \(number) came")
        }
        if let other = session.other(than: end), number > other.sent {
            machine.fail("message \(number) of session \(session.number) came, whose call has thrown")
        }
        // The requests of an end that has cancelled the session have errors in place of their replies.
        if replies > end.replies, !end.isOver, !end.isGivenUp, !mayLose {
            machine.fail("message \(number) of session \(session.number) came before reply \(replies)")
        }
        end.received = number
        call(end, session, body)
    }

    /// A request has its outcome. Called on the session's queue, or where the request has waited.
    func ended(_ number: UInt32, at end: End, of session: Session) {
        machine.story.tell(machine) { "has the outcome of request \(number) of session \(session.number)" }
        outcomeCount += 1
        if end.open.remove(number) == nil {
            machine.fail("request \(number) of session \(session.number) has two outcomes")
        }
    }

    /// - Parameter messages: The messages that the other end had sent before the reply.
    func checkOrder(_ messages: UInt32, at end: End, of session: Session) {
        // An end that cancels the session discards the messages that wait.
        if messages > end.received, !session.ends.contains(where: { $0.isOver || $0.isGivenUp }), !isDisturbed(session)
        {
            machine.fail("a reply of session \(session.number) came before message \(messages)")
        }
    }

    /// A handler runs.
    func call(_ end: End, _ session: Session, _ body: () -> Void) {
        if end.isInHandler { machine.fail("session \(session.number) has two handlers at a time") }
        if end.isOver { machine.fail("a handler of session \(session.number) is called after its end") }
        end.isInHandler = true
        body()
        end.isInHandler = false
    }

    // MARK: The end

    /// “Requests without a reply end with an error, and then the cancellation handler is called, once.”
    func cancelled(_ end: End, of session: Session) {
        machine.story.tell(machine) { "is told the end of session \(session.number)" }
        if end.isOver { machine.fail("\(end.process) was told the end of session \(session.number) twice") }
        checkOutcomes(end, session)
        if !session.ends.contains(where: { $0.isGivenUp || $0.process.isEnding }), !isDisturbed(session) {
            machine.fail("session \(session.number) has ended, and nobody has ended it")
        }
        end.isOver = true
    }

    private func checkOutcomes(_ end: End, _ session: Session) {
        guard let request = end.open.subtracting([end.inCall].compactMap(\.self)).min() else { return }
        machine.fail("request \(request) of session \(session.number) has no outcome, and the session has ended")
    }

    /// Whether a request waits at a living process.
    var isBusy: Bool {
        sessions.contains { session in
            session.ends.count == 2 && !session.client.open.isEmpty
                && !session.ends.contains { $0.isOver || $0.isGivenUp || $0.process.isEnding }
        }
    }

    /// The sessions of which an end lives on, although the other one is over.
    var unended: [String] {
        sessions.flatMap { session in
            session.ends.filter { end in
                let other = session.other(than: end)
                let isLast = other.map { $0.isOver || $0.process.state == .gone } ?? false
                // “A session that is released before it is cancelled ends after its last reply.”
                let isReleased = end === session.client && session.hasBegun && end.isGivenUp && end.open.isEmpty
                return (isLast || isReleased) && !end.isOver && !end.process.isEnding
            }.map { "\($0.process) was not told the end of session \(session.number)" }
        }
    }
}
