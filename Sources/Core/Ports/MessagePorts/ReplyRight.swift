import RunLoops

/// The right to reply to one request, once. When the right is released unused, the asker learns at once that no reply
/// follows. After an error another reply may follow. After a reply, a further one throws
/// ``PortError/alreadyAnswered(port:)``.
public final class ReplyRight: Sendable {
    private let request: RequestLedger.Request
    private let ledger: RequestLedger

    /// Makes the right to reply to a request of the ledger.
    init(_ request: RequestLedger.Request, _ ledger: RequestLedger) {
        (self.request, self.ledger) = (request, ledger)
    }

    deinit {
        // In a forked child, the request is still the parent's.
        guard !Fork.isChild, let sizes = ledger.release(request) else { return }
        let bytes = [UInt64(sizes.size), UInt64(sizes.limit)].flatMap {
            withUnsafeBytes(of: $0.littleEndian, Array.init)
        }
        let message = MachPort.Message(id: RequestFailure.ID.replyTooLarge.rawValue, data: bytes)
        do throws(PortError) { try post(message, .failed) } catch { ledger.end(request, .unanswered) }
    }

    // MARK: Replying

    /// Sends the reply, now or when the asker has room. The call does not wait, and works in a cancelled task, too. Any
    /// thread may call this method. Up to a hundred replies wait for one asker, and more while they are small, each for
    /// ten seconds, or for ``PortRuntime/flushBound`` when the process exits. The asker learns when its reply cannot be
    /// sent in that time.
    /// - Parameter bytes: The reply's data; nil for none.
    /// - Throws: ``PortError``: `messageTooLarge`, which the asker learns if no other reply follows, `isInvalid`,
    ///   `sendTimedOut` when too many replies wait…
    public func reply(with bytes: [UInt8]? = nil) throws(PortError) { try reply(with: MachPort.Message(data: bytes)) }

    /// Sends a reply of any components, now or when the asker has room. The call does not wait. The asker does not get
    /// the message's `replyPort`.
    /// - Throws: ``PortError``, as the form for bytes.
    public func reply(with message: MachPort.Message) throws(PortError) {
        try once { () throws(PortError) in try post(message, .answered) }
    }

    /// Sends a failure in place of the reply, now or when the asker has room. The call does not wait. The asker gets
    /// ``PortError/failed(port:_:)``.
    /// - Throws: ``PortError``, as a reply.
    public func fail(with failure: RequestFailure) throws(PortError) {
        let message = MachPort.Message(id: failure.id.rawValue, failure.components.map { .bytes($0) })
        try once { () throws(PortError) in try post(message, .failed) }
    }

    /// Tells the asker that nobody has handled the request, so that the asker can ask again.
    func refuse() {
        if (try? begin()) != nil { ledger.end(request, .refused) }
    }

    /// Sends the reply, and blocks while the asker has no room, until the deadline.
    /// - Throws: ``PortError`` when the reply was not sent.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func reply(with bytes: [UInt8]? = nil, before deadline: ContinuousClock.Instant?) throws(PortError) {
        try once { () throws(PortError) in
            var message = try outgoing(MachPort.Message(data: bytes))
            try asker.send(&message, before: MonotonicInstant(deadline))
            ledger.end(request, .answered)
        }
    }

    /// Sends the reply, and suspends the task while the asker has no room, until the deadline.
    /// - Throws: ``PortError``, or `CancellationError`, when the reply was not sent.
    public nonisolated(nonsending) func reply(
        with bytes: [UInt8]? = nil, before deadline: ContinuousClock.Instant?
    ) async throws {
        try begin()
        do {
            try await asker.send(outgoing(MachPort.Message(data: bytes)), before: MonotonicInstant(deadline))
            ledger.end(request, .answered)
        } catch {
            giveBack(error)
            throw error
        }
    }

    private func once(_ send: () throws(PortError) -> Void) throws(PortError) {
        try begin()
        do throws(PortError) {
            try send()
        } catch {
            giveBack(error)
            throw error
        }
    }

    private func giveBack(_ error: any Error) {
        guard case .messageTooLarge(_, let size, let limit)? = error as? PortError else {
            return ledger.giveBack(request)
        }
        ledger.giveBack(request, tooLarge: .init(size: size, limit: limit))
    }

    private func begin() throws(PortError) {
        try Fork.check()
        if !ledger.reply(to: request) { throw .alreadyAnswered(port: asker.identity) }
    }

    private func post(_ message: MachPort.Message, _ end: RequestEnd) throws(PortError) {
        let message = try outgoing(message, end == .failed ? .failure : .reply)
        // Captures no `self`, because the right may be ending.
        try asker.post(message, within: .seconds(10)) { [ledger, request] error in
            if let error { Self.noteUnsent(error, to: request.asker) }
            ledger.end(request, error == nil ? end : .unanswered)
        }
        ledger.posted(request)
    }

    private func outgoing(
        _ message: MachPort.Message, _ kind: Wire.Kind = .reply
    ) throws(PortError) -> OutgoingMessage {
        var message = message
        if message.replyPort != nil { message.replyPort = nil }
        return try MessageEncoding.outgoing(message, kind: kind, request: request.number, to: asker)
    }

    private var asker: SendChannel { request.asker }

    package func noteUnsent(_ error: any Error) { Self.noteUnsent(error, to: asker) }

    private static func noteUnsent(_ error: any Error, to asker: SendChannel) {
        switch error as? PortError {
        case .isInvalid(let port) where port.id == asker.id, .becameInvalid(let port) where port.id == asker.id:
            log.debug("nobody waits for the reply to \(asker.identity) any more: its asker has given up, or ended")
        case .alreadyAnswered: log.debug("a second reply to \(asker.identity) was dropped: a request gets one")
        default:
            log.info(
                about: .incarnation(asker.id.incarnation), "a reply is lost, which its asker is told: \(error)")
        }
    }

    // MARK: Cancellation

    /// Whether nobody waits for the reply any more: the asker has given up, its time is over, or its process is gone.
    /// Then a reply is dropped. Any thread may read this property.
    public var isCancelled: Bool { !Fork.isChild && ledger.isCancelled(request) }

    /// Calls a handler once, when ``isCancelled`` becomes true, or at once when it is true. The handler is dropped
    /// after the reply. It is called on any thread, most often one of the library, must not block it, and must not
    /// retain the right.
    public func onCancel(_ handler: @escaping @Sendable () -> Void) {
        if !Fork.isChild { ledger.onCancel(request, handler) }
    }
}
