import Dispatch
import Ports
import RunLoopLocks
import RunLoops
import TypedPorts

/// One end of a session: the state behind ``XPCSession``, which may be released before.
///
/// All handlers are called on the session's serial queue, in order. Whether and what happens is decided by
/// ``SessionState`` under the lock, and done after it.
final class SessionCore: Sendable {
    /// The other end in texts.
    let peer: String
    private let state: Lock<SessionState>

    /// The time for room at the other end.
    private static let sendTime = Duration.seconds(10)

    init(peer: String, _ state: sending SessionState) {
        self.peer = peer
        self.state = Lock(state)
    }

    /// Changes what the session was made with.
    func configure(_ change: (inout sending SessionState) -> Void) { state.withLock { change(&$0) } }

    /// Begins the session's active life.
    private func begin(_ phase: SessionState.Phase) throws(XPCRichError) -> DispatchQueue {
        try state.withLock { (state) throws(XPCRichError) in
            switch state.phase {
            case .inactive: break
            case .ended(let error): throw error
            case .connecting, .open: throw XPCRichError("the session with \(peer) is active already")
            }
            let queue = DispatchQueue(label: "XPC session", target: state.targetQueue)
            (state.phase, state.queue, state.itself) = (phase, queue, self)
            return queue
        }
    }

    /// Makes the port that takes this end's messages.
    private func makePort(for remote: RemoteMessagePort, on queue: DispatchQueue) throws -> LocalMessagePort {
        let port = try remote.makeMessagePort { [weak self] request in self?.received(request) }
        SessionMessage.describe(at: port)
        try port.setQueue(queue)
        let hasEnded = state.withLock { state in
            if case .ended = state.phase { return true }
            state.port = port
            return false
        }
        if hasEnded { port.invalidateAtOnce() }
        return port
    }

    // MARK: Beginning

    /// Asks the listener for the session. Blocks until the listener's name is found. Messages may be sent at once. They
    /// wait until the listener has accepted the session.
    func connect(to target: SessionTarget) throws(XPCRichError) {
        let queue = try begin(.connecting(waiting: []))
        do {
            let listener = try target.port()
            let port = try makePort(for: listener, on: queue)
            let hello = try AskedReply(
                of: listener, Hello(session: port.sendRight).message(), before: .now + Self.sendTime
            ) { [weak self] outcome in
                // Sending what waits may block.
                DispatchQueue.global().async { [weak self] in self?.connected(outcome) }
            }
            let rest = state.withLock { state -> AskedReply? in
                guard case .connecting = state.phase else { return hello }
                state.hello = hello
                return nil
            }
            withExtendedLifetime(rest) {}
        } catch {
            let error = XPCRichError(error)
            end(error, .silently)
            throw error
        }
    }

    private func connected(_ outcome: Result<MachPort.Message, PortError>) {
        let remote: RemoteMessagePort
        do {
            let message = try outcome.get()
            if let refusal = refusal(of: message.sender) { throw refusal }
            remote = try CBORCoder().decode(Welcome.self, from: message).port(of: peer)
        } catch {
            return end(XPCRichError(error), .atOnce)
        }
        watch(remote)
        while true {
            let waiting = state.withLock { $0.takeWaiting(for: remote) }
            if waiting.isEmpty { break }
            for outgoing in waiting { send(outgoing, to: remote) }
        }
        releaseIfIdle()
    }

    /// Begins the listener's end of a session.
    /// - Returns: The right to send to it.
    func accept(_ remote: RemoteMessagePort) throws -> MachPort.SendRight {
        let queue = try begin(.open(remote))
        do {
            let port = try makePort(for: remote, on: queue)
            watch(remote)
            return port.sendRight
        } catch {
            end(XPCRichError(error), .atOnce)
            throw error
        }
    }

    // MARK: Receiving

    private func received(_ request: MessagePortRequest) {
        if let refusal = refusal(of: request.message.sender) { return end(refusal, .atOnce) }
        switch SessionMessage(rawValue: request.id) {
        case .message, .sync:
            let message = XPCReceivedMessage(request)
            guard let handler = state.withLock({ $0.incoming }) else {
                return message.fail("the session takes no messages")
            }
            if let reply = handler(message) { message.reply(reply) }
        case .end:
            let reason = request.data.map { String(decoding: $0, as: UTF8.self) } ?? ""
            end(XPCRichError("\(peer) cancelled the session: \(reason)"), .afterReplies)
        case .hello, nil:
            try? request.replyRight?.fail(with: RequestFailure("a session takes no message \(request.id)"))
        }
    }

    private func refusal(of sender: MessageSender?) -> XPCRichError? {
        state.withLock { $0.requirement }?.refusal(of: sender)
    }

    // MARK: Sending

    /// Sends a message, now or when the session is connected. Blocks while the other end has no room, at most ten seconds.
    func send(_ message: MachPort.Message) throws(XPCRichError) {
        let way = try state.withLock { (state) throws(XPCRichError) in try state.send(message) }
        guard case .now(let remote) = way else { return }
        do throws(PortError) {
            try remote.sendRight.send(message, before: .now + Self.sendTime)
        } catch {
            throw XPCRichError(error)
        }
    }

    /// Sends a request. The completion is called once, on any thread, perhaps at once, and must not block.
    func ask(_ message: MachPort.Message, _ completion: @escaping SessionState.Completion) throws(XPCRichError) {
        let (number, way) = try state.withLock { (state) throws(XPCRichError) in
            let number = state.ask(completion)
            do throws(XPCRichError) {
                return (number, try state.send(message, request: number))
            } catch {
                _ = state.takeAsked(number)
                throw error
            }
        }
        if case .now(let remote) = way { ask(message, number, remote) }
    }

    private func send(_ outgoing: SessionState.Outgoing, to remote: RemoteMessagePort) {
        if let number = outgoing.request {
            guard state.withLock({ $0.isAsked(number) }) else { return }
            return ask(outgoing.message, number, remote)
        }
        do throws(PortError) {
            try remote.sendRight.send(outgoing.message, before: .now + Self.sendTime)
        } catch {
            log.warning("a message to \(peer), sent before the session was accepted, is lost: \(error)")
        }
    }

    private func ask(_ message: MachPort.Message, _ number: UInt64, _ remote: RemoteMessagePort) {
        do throws(PortError) {
            let reply = try AskedReply(of: remote, message, before: .now + Self.sendTime) { [weak self] outcome in
                self?.ended(number, outcome.mapError { XPCRichError($0) })
            }
            state.withLock { $0.noteSent(number, reply) }
        } catch {
            ended(number, .failure(XPCRichError(error)))
        }
    }

    private func ended(_ number: UInt64, _ outcome: Result<MachPort.Message, XPCRichError>) {
        guard let asked = state.withLock({ $0.takeAsked(number) }) else { return }
        asked.completion(checked(outcome))
        finishIfPossible()
        releaseIfIdle()
    }

    /// A reply counts only from a peer that meets the requirement.
    private func checked(_ outcome: Result<MachPort.Message, XPCRichError>) -> Result<MachPort.Message, XPCRichError> {
        if case .success(let reply) = outcome, let refusal = refusal(of: reply.sender) { return .failure(refusal) }
        return outcome
    }

    /// Calls a handler on the session's queue.
    func perform(_ handler: @escaping @Sendable () -> Void) {
        let queue = state.withLock { $0.queue }
        // An inactive session has no queue.
        (queue ?? .global()).async(execute: handler)
    }

    // MARK: The end

    /// The fate of the requests that wait for replies, when a session ends.
    private enum Ending {
        /// They end with the session's error.
        case atOnce
        /// As `atOnce`. The cancellation handler is not called, because a call throws the error.
        case silently
        /// A reply may be on its way, and the library ends those without one.
        case afterReplies
    }

    /// Ends the session, and tells the other end.
    func cancel(reason: String) {
        let remote = state.withLock { state -> RemoteMessagePort? in
            if case .open(let remote) = state.phase { remote } else { nil }
        }
        if let remote {
            let message = MachPort.Message(id: SessionMessage.end.rawValue, bytes: reason.utf8)
            // Without room, the other end learns the end of the port.
            try? remote.sendRight.send(message, before: .now)
        }
        end(XPCRichError("the session with \(peer) was cancelled: \(reason)"), .atOnce)
    }

    /// Nobody refers to a client's session any more. It ends after its last reply.
    func release() {
        let isActive = state.withLock { state in
            state.isReleased = true
            if case .inactive = state.phase { return false }
            return true
        }
        if isActive { releaseIfIdle() }
    }

    private func releaseIfIdle() {
        if state.withLock({ $0.mayBeReleased }) { cancel(reason: "its last reference is gone") }
    }

    private func watch(_ remote: RemoteMessagePort) {
        let watch = InvalidationWatch(remote.sendRight) { [weak self] in self?.peerEnded() }
        let hasEnded = state.withLock { state in
            if case .ended = state.phase { return true }
            state.watch = watch
            return false
        }
        if hasEnded { watch.cancel() }
    }

    /// The other end's port is invalid. Messages that came before may still wait, so the session ends when none comes
    /// between two turns of its queue.
    private func peerEnded(_ taken: Int? = nil) {
        // An ended session has no port.
        guard let (queue, port) = state.withLock({ state in state.queue.flatMap { q in state.port.map { (q, $0) } } })
        else { return }
        let count = port.activity.taken
        if count == taken {
            let error = XPCRichError("\(peer) has ended, or has cancelled the session", canRetry: true)
            return end(error, .afterReplies)
        }
        queue.asyncAfter(deadline: .now() + .milliseconds(50)) { [weak self] in self?.peerEnded(count) }
    }

    private func end(_ error: XPCRichError, _ ending: Ending) {
        let (isFirst, failed) = state.withLock { state in
            let isFirst = state.end(error)
            if ending == .silently { state.cancellation = nil }
            return (isFirst, ending == .afterReplies ? [] : state.takeAllAsked())
        }
        for asked in failed { asked.completion(.failure(error)) }
        if isFirst || !failed.isEmpty { finishIfPossible() }
    }

    private func finishIfPossible() {
        guard let remains = state.withLock({ $0.finish() }) else { return }
        remains.watch?.cancel()
        remains.port?.invalidateAtOnce()
        guard let cancellation = remains.cancellation else { return }
        // A session that was cancelled before it was activated has no queue.
        (remains.queue ?? .global()).async { cancellation(remains.error) }
    }
}
