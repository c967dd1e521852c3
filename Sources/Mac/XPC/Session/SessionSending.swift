import Ports
import RunLoops
import TypedPorts

// The messages to the other end. No call waits for room: messages wait in the outbox.

extension SessionCore {
    /// Sends a message, now or later.
    func send(_ message: MachPort.Message) throws(XPCRichError) {
        var message = message
        let observer = observe(&message)
        do throws(XPCRichError) {
            try post(&message)
            observer?.end(.success(nil))
        } catch {
            observer?.end(.failure(error))
            throw error
        }
    }

    /// Adds the context that travels with a message, if somebody sees the session's messages.
    private func observe(_ message: inout MachPort.Message) -> (any AskedRequestObserver)? {
        let observer = state.withLock { $0.observer }?.sending()
        if let context = observer?.context { message.components.append(.bytes(context)) }
        return observer
    }

    private func post(_ message: inout MachPort.Message) throws(XPCRichError) {
        let remote = try state.withLock { (state) throws(XPCRichError) in try state.send(&message) }
        guard let remote else { return sendQueued() }
        do throws(PortError) {
            if try remote.sendRight.sendAtOnce(message) { return }
        } catch {
            replaceUnsent()
            throw XPCRichError(error, inSessionWith: peer)
        }
        try queue(message, nil)
    }

    /// Sends a request, now or later. Its asker gets one outcome, perhaps at once.
    func ask(_ message: MachPort.Message, _ asker: SessionState.Asker) throws(XPCRichError) {
        var message = message
        let observer = observe(&message)
        do throws(XPCRichError) {
            try ask(&message, asker, observer)
        } catch {
            observer?.end(.failure(error))
            throw error
        }
    }

    private func ask(
        _ message: inout MachPort.Message, _ asker: SessionState.Asker, _ observer: (any AskedRequestObserver)?
    ) throws(XPCRichError) {
        let (number, remote) = try state.withLock { (state) throws(XPCRichError) in
            let number = state.ask(asker, observer)
            do throws(XPCRichError) {
                return (number, try state.send(&message, request: number))
            } catch {
                state.forget(number)
                throw error
            }
        }
        guard let remote else { return sendQueued() }
        do throws(PortError) {
            if let reply = try AskedReply(of: remote, atOnce: message, whenDone: outcomeHandler(number)) {
                state.withLock { $0.noteSent(number, reply) }
                return
            }
        } catch {
            replaceUnsent()
            return ended(number, .failure(XPCRichError(error, inSessionWith: peer)))
        }
        do throws(XPCRichError) { try queue(message, number) } catch { ended(number, .failure(error)) }
    }

    private func queue(_ message: MachPort.Message, _ request: UInt64?) throws(XPCRichError) {
        do throws(XPCRichError) {
            try state.withLock { (state) throws(XPCRichError) in try state.queue(message, request) }
        } catch {
            replaceUnsent()
            throw error
        }
        sendQueued()
    }

    private func replaceUnsent() {
        state.withLock { $0.replaceUnsent() }
        sendQueued()
    }

    // MARK: The outbox

    /// Starts the task that sends what is in the outbox, unless there is one.
    func sendQueued() {
        state.withLock { state in
            guard let remote = state.portToStartSending else { return }
            state.sender = Task { await self.sendQueued(to: remote) }
        }
    }

    private func sendQueued(to remote: RemoteMessagePort) async {
        while let entry = state.withLock({ $0.takeQueued() }) {
            do {
                try await send(entry, to: remote)
            } catch {
                if Task.isCancelled { return }
                if let number = entry.request { ended(number, .failure(XPCRichError(error, inSessionWith: peer))) }
                // The session ends when the other end's port has ended.
                guard remote.isValid else { continue }
                log.warning("a message to \(peer) cannot be sent: \(error)")
                state.withLock { $0.replaceUnsent() }
            }
        }
        releaseIfIdle()
    }

    private func send(_ entry: Outbox.Entry, to remote: RemoteMessagePort) async throws {
        guard let number = entry.request else { return try await remote.sendRight.send(entry.message) }
        let reply = try await AskedReply(of: remote, entry.message, whenDone: outcomeHandler(number))
        state.withLock { $0.noteSent(number, reply) }
    }

    // MARK: Replies

    private func outcomeHandler(_ number: UInt64) -> @Sendable (Result<MachPort.Message, PortError>) -> Void {
        { [weak self, peer] outcome in
            self?.ended(
                number, outcome.mapError { XPCRichError($0, inSessionWith: peer) }, isReply: outcome.isReply)
        }
    }

    /// - Parameter isReply: Whether the other end has replied, be it with an error.
    private func ended(_ number: UInt64, _ outcome: SessionState.Outcome, isReply: Bool = false) {
        // A reply counts only from a peer that meets the requirement.
        if case .success(let reply) = outcome, let refusal = refusal(of: reply.sender) { return end(refusal, .atOnce) }
        guard let ended = state.withLock({ $0.end(number, outcome, isReply: isReply) }) else { return }
        finish(ended)
        finishIfPossible()
        releaseIfIdle()
    }

    /// Brings the outcome of a request to its asker.
    func finish(_ request: SessionState.EndedRequest) {
        request.asked.observer?.end(request.outcome.map { $0 }.mapError { $0 })
        if case .thread(let wait) = request.asked.asker { wait.set(request.outcome) }
        if request.hasArrivals { perform { self.handleArrivals() } }
    }
}

extension Result<MachPort.Message, PortError> {
    /// Whether the other end has replied, be it with an error.
    fileprivate var isReply: Bool {
        switch self {
        case .success, .failure(.failed): true
        case .failure: false
        }
    }
}
