import RunLoopLocks
import RunLoops

/// The requests that a port has taken, with one entry each, until ``end(_:_:)``. The port can end after the last, and
/// its owner can report them.
final class RequestLedger: TakenRequests {
    struct Request {
        /// The channel to the asker's port for the reply.
        let asker: SendChannel
        let number: UInt64
        fileprivate let place: RequestRecords.Place

        fileprivate var id: RequestID { RequestID(asker: asker.id.incarnation, number: number) }
    }

    let serving = ServeCalls()
    /// Set when the port takes no more requests, and none waits for its reply, except requests of processes that do not
    /// read.
    let areDone = Promise<Void>()
    private let notices: RequestNotices
    private let state = Lock(RequestRecords())

    init(_ notices: RequestNotices) { self.notices = notices }

    /// - Returns: Nil when the port takes no more requests.
    func begin(_ asker: SendChannel, number: UInt64, subject: UInt32) -> Request? {
        let place = state.withLock { $0.begin(asker.id, number: number, subject: subject) }
        return place.map { Request(asker: asker, number: number, place: $0) }
    }

    /// Begins a reply.
    /// - Returns: False when there is one already.
    func reply(to request: Request) -> Bool { change { $0.reply(request.place).isFirst } }

    /// The reply was not sent. Another may follow.
    func giveBack(_ request: Request, tooLarge: RequestRecords.TooLarge? = nil) {
        state.withLock { $0.giveBack(request.place, tooLarge) }
    }

    /// The reply was sent, or waits for room.
    func posted(_ request: Request) {
        if state.withLock({ $0.post(request.place) }) { notices.dropHandlers(of: request.id) }
    }

    /// Ends a request without a reply.
    /// - Returns: The sizes of a reply that was too large, when the asker has to be told. The caller sends that, in
    ///   place of a reply.
    func release(_ request: Request) -> RequestRecords.TooLarge? {
        let (isFirst, tooLarge) = change { $0.reply(request.place) }
        if let tooLarge, !isCancelled(request) { return tooLarge }
        if isFirst { end(request, .unanswered) }
        return nil
    }

    /// Ends a request. Called once, by the caller that has begun its reply. All effects of the end are here.
    func end(_ request: Request, _ end: RequestEnd) {
        // The asker learns the end before that of the port, which may wait for this request alone.
        switch end {
        case .answered, .failed: break
        case .refused:
            request.asker.tell(.refused(request.number))
            request.asker.channels.refusedCount.add(1, ordering: .relaxed)
        case .unanswered:
            // Nobody waits for a notice about a request that was given up.
            if !isCancelled(request) { request.asker.tell(.unanswered(request.number)) }
        }
        let isDone = state.withLock { entries in
            entries.end(request.place)
            return entries.isDone
        }
        // Then no handler can be added any more.
        notices.ended(request.id, end)
        if isDone { areDone.set(()) }
    }

    func has(_ request: RequestID) -> Bool { state.withLock { $0.has(request) } }
    func name(ofRequests id: UInt32) -> String? { serving.kind(of: id)?.name }

    // MARK: Cancellation

    func isCancelled(_ request: Request) -> Bool { !request.asker.isValid || notices.isCancelled(request.id) }

    /// Calls the handler when the request is cancelled, perhaps at once. A reply drops the handler.
    func onCancel(_ request: Request, _ handler: @escaping @Sendable () -> Void) {
        notices.onCancel(request.id, replyPort: request.asker, handler)
        // Another thread may have sent the reply before the handler was added. Nobody would drop the handler then.
        let stage = state.withLock { $0[request.place] }
        if stage == nil || stage == .posted { notices.dropHandlers(of: request.id) }
    }

    // MARK: The port

    var isFinishing: Bool { state.withLock { $0.isFinishing } }
    var isEmpty: Bool { state.withLock { $0.isEmpty } }
    /// The requests that have no reply yet, those of other transports, too.
    var count: Int { state.withLock { $0.count } + serving.foreignRequests.count }

    /// Takes no more requests.
    func finish() { change { $0.isFinishing = true } }

    func note(_ asker: Incarnation, isSilent: Bool) { change { $0.note(asker, isSilent: isSilent) } }

    private func change<Result>(_ change: (inout RequestRecords) -> Result) -> Result {
        let (result, isDone) = state.withLock { (change(&$0), $0.isDone) }
        if isDone { areDone.set(()) }
        return result
    }

    /// Calls `body` with each request in progress, under the lock, because a copy of very many requests would take
    /// longer. `body` must be short.
    func forEach(_ body: (RequestRecords.Entry, RequestKind?) -> Void) {
        let kinds = serving.kinds
        state.withLock { entries in entries.forEach { body($0, kinds[$0.subject]) } }
    }
}

extension Receiver {
    /// The requests that were taken; nil for a port that is no message port.
    var ledger: RequestLedger? { requests as? RequestLedger }
}

/// The end of a request.
enum RequestEnd {
    case answered
    /// A failure was sent in place of the reply.
    case failed
    /// Released without a reply, or the reply could not be sent.
    case unanswered
    /// Nobody has handled the request.
    case refused
}
