import RunLoopLocks
import RunLoops

/// The right to reply to one request, once. Released unused, it tells the asker at once that no reply follows. After an
/// error another reply may follow; after a reply, a further one throws ``PortError/alreadyAnswered(port:)``.
public final class ReplyRight: Sendable {
    private let asker: SendChannel
    private let request: UInt64
    private let isUsed = Lock(false)

    init?(_ message: ReceivedMessage) {
        guard message.header.kind == .request, let asker = message.replyChannel else { return nil }
        self.asker = asker
        request = message.header.request
    }

    deinit { if !isUsed.withLock({ $0 }) { refuse() } }

    /// Sends the reply, which may have no data (nil), now or when the asker has room. The call does not wait. Any
    /// thread may call this method. Up to a hundred replies wait for one asker, and more while they are small, each for
    /// ten seconds, or for ``PortRuntime/flushBound`` when the process exits. The asker is told when its reply cannot be
    /// sent in that time.
    /// - Throws: ``PortError``: `messageTooLarge`, `isInvalid`, `sendTimedOut` when that many replies wait…
    public func reply(with bytes: [UInt8]? = nil) throws(PortError) {
        try once { () throws(PortError) in
            try asker.post(message(bytes), before: .now + .seconds(10)) { error in
                self.noteUnsent(error)
                self.refuse()
            }
        }
    }

    /// Sends the reply. The call blocks its thread while the asker has no room, until the deadline.
    /// - Throws: ``PortError`` when the reply was not sent.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public func reply(
        with bytes: [UInt8]? = nil, before deadline: ContinuousClock.Instant?
    ) throws(PortError) {
        try once { () throws(PortError) in
            var message = try message(bytes)
            try asker.send(&message, before: MonotonicInstant(deadline))
        }
    }

    /// Sends the reply as the form that blocks does, suspending the task. Throws also `CancellationError`: not sent.
    public nonisolated(nonsending) func reply(
        with bytes: [UInt8]? = nil, before deadline: ContinuousClock.Instant?
    ) async throws {
        try use()
        do {
            try Task.checkCancellation()
            try await asker.send(message(bytes), before: MonotonicInstant(deadline))
        } catch {
            giveBack()
            throw error
        }
    }

    func noteUnsent(_ error: any Error) {
        log.info(about: .incarnation(asker.id.incarnation), "a reply could not be sent: \(error)")
    }

    private func once(_ send: () throws(PortError) -> Void) throws(PortError) {
        try use()
        do throws(PortError) {
            try send()
        } catch {
            giveBack()
            throw error
        }
    }

    private func use() throws(PortError) {
        try Fork.check()
        if isUsed.withLock({ exchange(&$0, with: true) }) { throw .alreadyAnswered(port: asker.id) }
    }

    private func giveBack() { isUsed.withLock { $0 = false } }

    private func message(_ bytes: [UInt8]?) throws(PortError) -> OutgoingMessage {
        try MessageEncoding.outgoing(MachPort.Message(data: bytes), kind: .reply, request: request, to: asker)
    }

    private func refuse() {
        // In a forked child, the request is still the parent's.
        if !Fork.isChild { asker.refuse(request) }
    }
}
