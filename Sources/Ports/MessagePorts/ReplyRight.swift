import RunLoops
import ZeroMQ

/// The right to answer one request, once. When it is released without an answer, the asker is told so at once.
///
/// A reply that throws was not sent, and another can be: one that tells of the error, for instance. After a reply was
/// sent, a further one throws ``PortError/alreadyAnswered(port:)``.
public final class ReplyRight: Sendable {
    private let asker: SendChannel
    private let request: UInt64
    private let isUsed = Lock(false)

    init?(_ frame: ReceivedFrame) {
        guard frame.header.kind == .request, let asker = frame.replyChannel else { return nil }
        self.asker = asker
        request = frame.header.request
    }

    deinit {
        if !isUsed.withLock({ $0 }) { refuse() }
    }

    /// Sends the answer, now or when there is room at the asker's: a slow or dead asker holds up nobody.
    ///
    /// Any thread may call it. Up to a hundred answers wait for one asker, each for ten seconds, or for
    /// ``PortRuntime/flushBound`` when the process exits; an asker that gets no answer in the end is told so.
    /// - Parameter bytes: The answer's data; nil for an answer without data.
    /// - Throws: ``PortError`` when it can't be sent: `messageTooLarge`, `isInvalid`, `sendTimedOut` when a hundred
    ///   wait already…
    public func reply(with bytes: [UInt8]? = nil) throws(PortError) {
        try use()
        do throws(PortError) {
            try asker.post(frame(bytes), before: .now + .seconds(10)) { error in
                self.noteUnsent(error)
                self.refuse()
            }
        } catch {
            giveBack()
            throw error
        }
    }

    /// Sends the answer. It blocks its thread while there is no room at the asker's.
    ///
    /// - Parameters:
    ///   - bytes: The answer's data; nil for an answer without data.
    ///   - deadline: How long to wait for room at the asker's.
    /// - Throws: ``PortError`` when it could not be sent.
    public func reply(with bytes: [UInt8]? = nil, before deadline: MonotonicInstant) throws(PortError) {
        try use()
        do throws(PortError) {
            var frame = try frame(bytes)
            try asker.send(&frame, before: deadline)
        } catch {
            giveBack()
            throw error
        }
    }

    /// Sends the answer, suspending the task while there is no room at the asker's.
    ///
    /// - Parameters:
    ///   - bytes: The answer's data; nil for an answer without data.
    ///   - deadline: How long to wait for room at the asker's.
    /// - Throws: ``PortError`` when it could not be sent, `CancellationError` when the task was cancelled before.
    public nonisolated(nonsending) func reply(
        with bytes: [UInt8]? = nil, before deadline: MonotonicInstant = .now + .seconds(1)
    ) async throws {
        try use()
        do {
            try Task.checkCancellation()
            try await asker.send(frame(bytes), before: deadline)
        } catch {
            giveBack()
            throw error
        }
    }

    /// Logs an answer that nobody else is told of.
    func noteUnsent(_ error: any Error) {
        log.info(about: .incarnation(asker.id.incarnation), "a reply could not be sent: \(error)")
    }

    private func use() throws(PortError) {
        try Fork.check()
        let wasUsed = isUsed.withLock { isUsed in
            defer { isUsed = true }
            return isUsed
        }
        if wasUsed { throw .alreadyAnswered(port: asker.id) }
    }

    /// Nothing was sent.
    private func giveBack() { isUsed.withLock { $0 = false } }

    private func frame(_ bytes: [UInt8]?) throws(PortError) -> Frame {
        let components = bytes.map { [MachPort.Message.Component.bytes($0)] } ?? []
        return try MessageEncoding.frame(MachPort.Message(components), kind: .reply, request: request, to: asker)
    }

    private func refuse() {
        // In a forked child, the request is still the parent's.
        if !Fork.isChild { asker.refuse(request) }
    }
}
