import RunLoopLocks
import RunLoops

/// The right to reply to one request, once. When the right is released unused, the asker learns at once that no reply
/// follows. After an error another reply may follow. After a reply, a further one throws
/// ``PortError/alreadyAnswered(port:)``.
public final class ReplyRight: Sendable {
    private enum Phase { case unused, sending, used }

    private struct State {
        var phase = Phase.unused
        /// The size of a reply that was too large for the asker, and the asker's limit.
        var tooLarge: (size: Int, limit: Int)?
    }

    private let asker: SendChannel
    private let request: UInt64
    private let taken: TakenRequests
    private let place: TakenRequests.Place
    private let state = Lock(State())

    /// Makes the right.
    /// - Parameters:
    ///   - asker: The channel to the asker's port for the reply.
    ///   - request: The number of the request.
    ///   - taken: The requests that the port has taken.
    ///   - place: The request's place in `taken`.
    init(_ asker: SendChannel, _ request: UInt64, _ taken: TakenRequests, _ place: TakenRequests.Place) {
        (self.asker, self.request) = (asker, request)
        (self.taken, self.place) = (taken, place)
    }

    deinit {
        // In a forked child, the request is still the parent's.
        guard !Fork.isChild else { return }
        let state = state.withLock { $0 }
        guard state.phase == .unused else { return }
        var end = RequestEnd.unanswered
        defer { accepted?.remove(id, end) }
        // Nobody waits for a notice about a request that was given up.
        guard !isCancelled, let (size, limit) = state.tooLarge else {
            if !isCancelled { asker.tell(.unanswered(request)) }
            return taken.end(place)
        }
        let bytes = [UInt64(size), UInt64(limit)].flatMap { withUnsafeBytes(of: $0.littleEndian, Array.init) }
        let message = MachPort.Message(id: RequestFailure.ID.replyTooLarge.rawValue, data: bytes)
        do throws(PortError) {
            try post(message, kind: .failure)
            end = .failed
        } catch {
            asker.tell(.unanswered(request))
            taken.end(place)
        }
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
        try once(.answered) { () throws(PortError) in try post(message) }
    }

    /// Sends a failure in place of the reply, now or when the asker has room. The call does not wait. The asker gets
    /// ``PortError/failed(port:_:)``.
    /// - Throws: ``PortError``, as a reply.
    public func fail(with failure: RequestFailure) throws(PortError) {
        let message = MachPort.Message(id: failure.id.rawValue, failure.components.map { .bytes($0) })
        try once(.failed) { () throws(PortError) in try post(message, kind: .failure) }
    }

    /// Tells the asker that nobody has handled the request, so that the asker can ask again.
    func refuse() {
        guard (try? use()) != nil else { return }
        asker.tell(.refused(request))
        asker.channels.refusedCount.add(1, ordering: .relaxed)
        noteSent(.unanswered)
        taken.end(place)
    }

    /// Sends the reply, and blocks while the asker has no room, until the deadline.
    /// - Throws: ``PortError`` when the reply was not sent.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func reply(with bytes: [UInt8]? = nil, before deadline: ContinuousClock.Instant?) throws(PortError) {
        try once(.answered) { () throws(PortError) in
            var message = try outgoing(MachPort.Message(data: bytes))
            try asker.send(&message, before: MonotonicInstant(deadline))
            taken.end(place)
        }
    }

    /// Sends the reply, and suspends the task while the asker has no room, until the deadline.
    /// - Throws: ``PortError``, or `CancellationError`, when the reply was not sent.
    public nonisolated(nonsending) func reply(
        with bytes: [UInt8]? = nil, before deadline: ContinuousClock.Instant?
    ) async throws {
        try use()
        do {
            try await asker.send(outgoing(MachPort.Message(data: bytes)), before: MonotonicInstant(deadline))
            noteSent(.answered)
            taken.end(place)
        } catch {
            giveBack(error)
            throw error
        }
    }

    private func once(_ end: RequestEnd, _ send: () throws(PortError) -> Void) throws(PortError) {
        try use()
        do throws(PortError) {
            try send()
            noteSent(end)
        } catch {
            giveBack(error)
            throw error
        }
    }

    private func use() throws(PortError) {
        try Fork.check()
        let isUnused = state.withLock { state in
            let isUnused = state.phase == .unused
            if isUnused { state.phase = .sending }
            return isUnused
        }
        if !isUnused { throw .alreadyAnswered(port: asker.identity) }
        taken.setReplying(place, true)
    }

    private func noteSent(_ end: RequestEnd) {
        state.withLock { $0.phase = .used }
        accepted?.remove(id, end)
    }

    private func giveBack(_ error: any Error) {
        taken.setReplying(place, false)
        state.withLock { state in
            state.phase = .unused
            if case .messageTooLarge(_, let size, let limit)? = error as? PortError { state.tooLarge = (size, limit) }
        }
    }

    private func post(_ message: MachPort.Message, kind: Wire.Kind = .reply) throws(PortError) {
        // Captures no `self`, because the right may be ending.
        try asker.post(outgoing(message, kind), before: .now + .seconds(10)) { [asker, request, taken, place] error in
            taken.end(place)
            guard let error else { return }
            Self.noteUnsent(error, to: asker)
            asker.tell(.unanswered(request))
        }
    }

    private func outgoing(
        _ message: MachPort.Message, _ kind: Wire.Kind = .reply
    ) throws(PortError) -> OutgoingMessage {
        var message = message
        if message.replyPort != nil { message.replyPort = nil }
        return try MessageEncoding.outgoing(message, kind: kind, request: request, to: asker)
    }

    package func noteUnsent(_ error: any Error) { Self.noteUnsent(error, to: asker) }

    private static func noteUnsent(_ error: any Error, to asker: SendChannel) {
        switch error as? PortError {
        case .isInvalid(let port) where port.id == asker.id, .becameInvalid(let port) where port.id == asker.id:
            log.debug("nobody waits for the reply to \(asker.identity) any more: its asker has given up, or ended")
        default:
            log.info(
                about: .incarnation(asker.id.incarnation), "a reply is lost, which its asker is told: \(error)")
        }
    }

    // MARK: Cancellation

    private var accepted: AcceptedRequests? { asker.runtime?.accepted }
    private var id: AcceptedRequests.ID { .init(asker: asker.id.incarnation, number: request) }

    /// Whether nobody waits for the reply any more: the asker has given up, its time is over, or its process is gone.
    /// Then a reply is dropped. Any thread may read this property.
    public var isCancelled: Bool {
        guard !Fork.isChild else { return false }
        return !asker.isValid || accepted?.isCancelled(id) ?? true
    }

    /// Calls a handler once, when ``isCancelled`` becomes true, or at once when it is true. The handler is dropped
    /// after the reply. It is called on any thread, most often one of the library, must not block it, and must not
    /// retain the right.
    public func onCancel(_ handler: @escaping @Sendable () -> Void) {
        guard !Fork.isChild else { return }
        if isCancelled { return handler() }
        accepted?.onCancel(id, replyPort: asker, handler)
        // Another thread may have sent the reply after the check above and before the handler was added. Nobody would
        // drop the handler then.
        if state.withLock({ $0.phase == .used }) { accepted?.remove(id, .answered) }
    }
}
