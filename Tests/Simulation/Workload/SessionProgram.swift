@testable import Ports
@testable import XPC

/// A message of a session, or the reply to one.
private struct Note: Codable {
    var session: Int
    /// Counts the messages of one end.
    var number: UInt32
    /// The number of what the sender has sent before: messages in a reply, and replies in a message.
    var before: UInt32
    var deed = Deed.none

    enum Deed: Int, Codable { case none, reply, replyLater, forget, call }
}

// The XPC sessions of a program.

extension Program {
    private func sessionName(_ number: Int) -> String { "sessions \(number)" }

    // MARK: Listeners

    /// The listener's end of a session.
    private final class Accepted: @unchecked Sendable {
        // Sound: only the thread that has the baton runs.
        var xpc: XPCSession?
        /// Known with the first message.
        var session: (SessionPromises.Session, end: SessionPromises.End)?
    }

    func listenForSessions() {
        while goesOn {
            let accepted = Kept<[Accepted]>([])
            guard let listener = attempt({ try makeListener(sessionName(below(2)), accepted) }) ?? nil else {
                pause(50 + below(100))
                continue
            }
            let life = below(3) == 0 ? below(3_000) : 100_000
            _ = machine.wait(until: machine.now + UInt64(life) * 1_000_000) { [self] in !goesOn }
            // “The listener is cancelled: its sessions go on, and its name is free.”
            listener.cancel()
            pause(below(200))
            while let one = accepted.value.popLast() {
                one.session?.end.isGivenUp = true
                one.xpc?.cancel(reason: "the listener ends")
                _ = machine.wait(until: nil) { one.xpc == nil }
            }
        }
    }

    private func makeListener(_ name: String, _ accepted: Kept<[Accepted]>) throws -> XPCListener? {
        guard let names else { return nil }
        return try XPCListener(name: name, nameServer: names, ListenerSettings(), .none) { [self] request in
            if below(10) == 0 { return request.reject(reason: "not now") }
            let one = Accepted()
            let (decision, xpc) = request.accept { [self] (message: XPCReceivedMessage) -> (any Encodable)? in
                guard let note = try? message.decode(as: Note.self) else { machine.fail("a message is malformed") }
                let (session, end) = one.session ?? promises.sessions.accepts(note.session)
                one.session = (session, end)
                return answer(note, message, at: end, of: session, by: one.xpc)
            } cancellationHandler: { [self] _ in
                one.xpc = nil
                if let (session, end) = one.session { promises.sessions.cancelled(end, of: session) }
            }
            one.xpc = xpc
            accepted.value.append(one)
            return decision
        }
    }

    /// - Returns: The reply.
    private func answer(
        _ note: Note, _ message: XPCReceivedMessage, at end: SessionPromises.End, of session: SessionPromises.Session,
        by xpc: XPCSession?
    ) -> Note? {
        var reply: Note?
        promises.sessions.handle(note.number, after: note.before, at: end, of: session) {
            if below(6) == 0 { pause(below(40)) }
            switch note.deed {
            case .none, .forget: break
            case .call: if let xpc { call(xpc, end, session, .none) }
            case .reply:
                if below(3) == 0, let xpc { call(xpc, end, session, .none) }
                reply = Note(session: session.number, number: note.number, before: end.sent)
                if !message.isSync { end.replies += 1 }
            case .replyLater:
                let later = Note(session: session.number, number: note.number, before: end.sent)
                spawn("later reply") { [self] in
                    pause(below(100))
                    message.reply(later)
                }
            }
        }
        return reply
    }

    // MARK: Clients

    func openSessions() {
        while goesOn {
            let session = promises.sessions.begins()
            if useSession(session) {
                _ = machine.wait(until: nil) { session.client.isOver }
            }
            pause(below(300))
        }
    }

    /// - Returns: Whether the session has begun.
    private func useSession(_ session: SessionPromises.Session) -> Bool {
        defer { session.client.isGivenUp = true }
        guard let xpc = attempt({ try makeSession(session) }) ?? nil else { return false }
        session.hasBegun = true
        for _ in 0..<below(40) where goesOn {
            let deed = machine.chance.pick([Note.Deed.none, .none, .reply, .reply, .replyLater, .forget, .call])
            if !call(xpc, session.client, session, deed) { break }
            if below(4) == 0 { pause(below(100)) }
        }
        // Before the session's end, and not only after it.
        session.client.isGivenUp = true
        // Without that, the session ends after its last reply.
        if below(2) == 0 { xpc.cancel(reason: "enough") }
        return true
    }

    private func makeSession(_ session: SessionPromises.Session) throws -> XPCSession? {
        guard let names else { return nil }
        return try XPCSession(
            to: .service(sessionName(below(2)), names), nil, .none,
            incoming: { [self] message in
                guard let note = try? message.decode(as: Note.self) else { machine.fail("a message is malformed") }
                return answer(note, message, at: session.client, of: session, by: nil)
            },
            cancellation: { [self] _ in promises.sessions.cancelled(session.client, of: session) })
    }

    /// Sends a message.
    /// - Returns: False when the session has ended.
    @discardableResult
    private func call(
        _ xpc: XPCSession, _ end: SessionPromises.End, _ session: SessionPromises.Session, _ deed: Note.Deed
    ) -> Bool {
        let sessions = promises.sessions
        let number = sessions.next(from: end)
        let note = Note(session: session.number, number: number, before: end.replies, deed: deed)
        let wantsReply = deed != .none && deed != .call
        machine.story.tell(machine) { "sends message \(number) of session \(session.number): \(deed)" }
        sessions.sends(number, from: end, wantsReply: wantsReply)
        do {
            if !wantsReply {
                try xpc.send(note)
            } else if below(3) == 0, end === session.client {
                return ask(xpc, note, end, session)
            } else {
                try xpc.send(note) { [self] (reply: Result<Note, any Error>) in
                    sessions.call(end, session) {
                        check(reply, of: note, at: end, of: session)
                        if below(6) == 0 { pause(below(40)) }
                    }
                }
            }
            sessions.sent(number, from: end, of: session)
            return true
        } catch {
            sessions.unsent(number, from: end)
            return false
        }
    }

    /// Sends a request, and blocks the thread.
    private func ask(
        _ xpc: XPCSession, _ note: Note, _ end: SessionPromises.End, _ session: SessionPromises.Session
    ) -> Bool {
        let reply = Result<Note, any Error> { try xpc.sendSync(note) }
        promises.sessions.ended(note.number, at: end, of: session)
        promises.sessions.sent(note.number, from: end, of: session)
        guard case .success(let reply) = reply else { return false }
        if reply.number != note.number { machine.fail("request \(note.number) of a session has another's reply") }
        return true
    }

    private func check(
        _ reply: Result<Note, any Error>, of note: Note, at end: SessionPromises.End,
        of session: SessionPromises.Session
    ) {
        promises.sessions.ended(note.number, at: end, of: session)
        guard case .success(let reply) = reply else { return }
        if note.deed == .reply { end.replies += 1 }
        if reply.number != note.number { machine.fail("request \(note.number) of a session has another's reply") }
        promises.sessions.checkOrder(reply.before, at: end, of: session)
    }
}
