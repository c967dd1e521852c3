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
    let state: Lock<SessionState>

    /// The time for the handshake's request to be sent.
    private static let connectTime = Duration.seconds(10)

    init(peer: String, _ state: sending SessionState) {
        self.peer = peer
        self.state = Lock(state)
    }

    var hasEnded: Bool { state.withLock { if case .ended = $0.phase { true } else { false } } }

    /// Changes what the session was made with.
    func configure(_ change: (inout sending SessionState) -> Void) { state.withLock { change(&$0) } }

    func setObserver(_ observer: any SessionObserver) {
        // A former one is released after the lock.
        let former = state.withLock { exchange(&$0.observer, with: observer) }
        withExtendedLifetime(former) {}
    }

    /// Begins the session's active life: messages may be sent, and wait until the session is open.
    @discardableResult
    func begin() throws(XPCRichError) -> DispatchQueue {
        try state.withLock { (state) throws(XPCRichError) in
            switch state.phase {
            case .inactive: break
            case .ended(let error): throw error
            case .connecting, .open: throw XPCRichError("the session with \(peer) is active already")
            }
            let queue = DispatchQueue(label: "XPC session", target: state.targetQueue)
            (state.phase, state.queue) = (.connecting, queue)
            return queue
        }
    }

    /// Retains the session, and a listener's handle, until the session has ended.
    private func retainItself(_ handle: (any Sendable)? = nil) throws(XPCRichError) {
        try state.withLock { (state) throws(XPCRichError) in
            if case .ended(let error) = state.phase { throw error }
            (state.itself, state.handle) = (self, handle)
        }
    }

    /// Lets the messages that wait leave.
    private func open(_ remote: RemoteMessagePort) {
        watch(remote)
        let isOpen = state.withLock { state in
            guard case .connecting = state.phase else { return false }
            state.phase = .open(remote)
            return true
        }
        if isOpen { sendQueued() }
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
        let queue = try begin()
        do {
            try retainItself()
            let listener = try target.port()
            let port = try makePort(for: listener, on: queue)
            let hello = try AskedReply(
                of: listener, Hello(session: port.sendRight).message(), before: .now + Self.connectTime
            ) { [weak self] outcome in self?.connected(outcome) }
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
        open(remote)
    }

    /// Begins the listener's end of a session.
    /// - Parameters:
    ///   - remote: Where the client takes the session's messages.
    ///   - handle: The object that handlers may refer to.
    /// - Returns: The right to send to the listener's end.
    func accept(_ remote: RemoteMessagePort, _ handle: any Sendable) throws -> MachPort.SendRight {
        // The listener's handler may have activated the session itself.
        let activated = state.withLock { state -> DispatchQueue? in
            if case .connecting = state.phase { state.queue } else { nil }
        }
        let queue = try activated ?? begin()
        do {
            try retainItself(handle)
            let port = try makePort(for: remote, on: queue)
            open(remote)
            return port.sendRight
        } catch {
            end(XPCRichError(error), .atOnce)
            throw error
        }
    }

    func refusal(of sender: SenderCredentials?) -> XPCRichError? {
        state.withLock { $0.requirement }?.refusal(of: sender)
    }

    // MARK: The end

    /// The fate of the requests that wait for replies, when a session ends.
    enum Ending {
        /// They end with the session's error.
        case atOnce
        /// As `atOnce`. The cancellation handler is not called, because a call throws the error.
        case silently
        /// A reply may be on its way, and the library ends those without one.
        case afterReplies
    }

    /// Ends the session, and tells the other end.
    func cancel(reason: String) {
        end(XPCRichError("the session with \(peer) was cancelled: \(reason)"), .atOnce, telling: reason)
    }

    private func sendEnd(_ reason: String, to right: MachPort.SendRight) {
        let message = MachPort.Message(id: SessionMessage.end.rawValue, bytes: reason.utf8)
        // The library's thread must not wait here: it brings the last reply, which ends a released session.
        guard (try? right.sendAtOnce(message)) == false else { return }
        Task { try? await right.send(message, before: .now + .seconds(1)) }
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

    func releaseIfIdle() {
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

    /// The most looks at messages that seem to wait. A sender's count may be wrong.
    private static let mostLooks = 200

    /// The other end's port is invalid. Messages that came before may still wait, so the session ends when none waits, and
    /// none was taken between two turns of its queue.
    /// - Parameters:
    ///   - taken: The number of messages that were taken before.
    ///   - looks: The number of looks since a message was taken.
    private func peerEnded(_ taken: Int? = nil, looks: Int = 0) {
        // An ended session has no port.
        guard let (queue, port) = state.withLock({ state in state.queue.flatMap { q in state.port.map { (q, $0) } } })
        else { return }
        let count = port.activity.taken
        let lookAgain: @Sendable (Int) -> Void = { looks in
            queue.asyncAfter(deadline: .now() + .milliseconds(50)) { [weak self] in
                self?.peerEnded(count, looks: looks)
            }
        }
        guard count == taken else { return lookAgain(0) }
        port.countWaiting { waiting in
            if waiting > 0, looks < Self.mostLooks { return lookAgain(looks + 1) }
            queue.async { [weak self] in
                guard port.activity.taken == count else { return lookAgain(0) }
                self?.endWithPeer()
            }
        }
    }

    private func endWithPeer() {
        end(XPCRichError("\(peer) has ended, or has cancelled the session", canRetry: true), .afterReplies)
    }

    /// - Parameter reason: The reason that the other end gets, if this call ends an open session; nil for no message.
    func end(_ error: XPCRichError, _ ending: Ending, telling reason: String? = nil) {
        let (remote, isFirst, ended) = state.withLock { state in
            if ending == .silently { state.cancellation = nil }
            // Of two threads that end the session, one tells the other end.
            var remote: RemoteMessagePort?
            if case .open(let open) = state.phase { remote = open }
            let (isFirst, ended) = state.end(error, keepsRequests: ending == .afterReplies)
            return (remote, isFirst, ended)
        }
        if let reason, let remote { sendEnd(reason, to: remote.sendRight) }
        for request in ended { finish(request) }
        if isFirst || !ended.isEmpty { finishIfPossible() }
    }

    func finishIfPossible() {
        guard let remains = state.withLock({ $0.finish() }) else { return }
        remains.watch?.cancel()
        remains.sender?.cancel()
        remains.port?.invalidateAtOnce()
        // A thread for nothing is not worth while.
        guard remains.cancellation != nil || remains.hasArrivals else { return }
        // A session that was cancelled before it was activated has no queue.
        (remains.queue ?? .global()).async {
            self.handleArrivals()
            remains.cancellation?(remains.error)
        }
    }
}
