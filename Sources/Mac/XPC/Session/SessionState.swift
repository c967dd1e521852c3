import Dispatch
import Ports
import RunLoops
import TypedPorts

/// The state of one end of a session: it decides about messages and requests, and has no effects.
struct SessionState {
    typealias IncomingHandler = @Sendable (XPCReceivedMessage) -> (any Encodable)?
    typealias CancellationHandler = @Sendable (XPCRichError) -> Void
    typealias Outcome = Result<MachPort.Message, XPCRichError>

    enum Phase {
        case inactive
        /// The listener has not replied yet. Messages wait in the outbox.
        case connecting
        case open(RemoteMessagePort)
        case ended(XPCRichError)
    }

    /// The asker of a request.
    enum Asker {
        /// A thread, which gets the outcome at once.
        case thread(OneShot<Outcome>)
        /// A handler, which is called on the session's queue.
        case handler(@Sendable (Outcome) -> Void)
    }

    /// A message that has come.
    struct Arrived: Sendable {
        let request: MessagePortRequest
        let kind: SessionMessage
    }

    /// A request that waits for its reply.
    struct Asked {
        let asker: Asker
        let observer: (any AskedRequestObserver)?
        /// Nil until the request is sent.
        var reply: AskedReply?
    }

    var phase = Phase.inactive
    var incoming: IncomingHandler?
    var cancellation: CancellationHandler?
    var requirement: XPCPeerRequirement?
    var observer: (any SessionObserver)?
    var targetQueue: DispatchQueue?
    /// The queue of all handlers. Made when the session is activated.
    var queue: DispatchQueue?
    /// Where this end takes messages.
    var port: LocalMessagePort?
    /// The handshake's request.
    var hello: AskedReply?
    /// Watches the other end's port.
    var watch: InvalidationWatch?
    /// An active session retains itself.
    var itself: (any Sendable)?
    /// A listener's active session keeps the object that its handlers may refer to.
    var handle: (any Sendable)?
    /// Whether nobody refers to the client's session, which ends after its last reply.
    var isReleased = false
    /// Sends what is in the outbox; nil when nobody does.
    var sender: Task<Void, Never>?
    var outbox = Outbox()
    /// Whether messages go to the outbox: the session is not open yet, or its sender sends what came before.
    private(set) var isQueueing = true
    var arrivals = ArrivalOrder<Arrived>()
    private(set) var isFinished = false
    private var asked: [UInt64: Asked] = [:]
    private var lastRequest: UInt64 = 0
    let counts = SentCounts()

    // MARK: Sending

    /// Decides about a message, and counts it.
    /// - Returns: The port to send the message to, at once; nil when the message waits in the outbox.
    mutating func send(_ message: inout MachPort.Message, request: UInt64? = nil) throws(XPCRichError)
        -> RemoteMessagePort?
    {
        switch phase {
        case .inactive: throw XPCRichError("the session is inactive: activate it before messages are sent")
        case .ended(let error): throw error
        case .connecting, .open: break
        }
        SessionMessage.setReplies(counts.replies, of: &message)
        if case .open(let remote) = phase, !isQueueing {
            counts.addMessage()
            return remote
        }
        try queue(message, request)
        counts.addMessage()
        return nil
    }

    /// Puts a message in the outbox, which the other end had no room for.
    mutating func queue(_ message: MachPort.Message, _ request: UInt64?) throws(XPCRichError) {
        if case .ended(let error) = phase { throw error }
        guard outbox.append(Outbox.Entry(message: message, request: request)) else {
            throw XPCRichError(
                "\(outbox.count) messages wait for room at the other end of the session: send fewer, or wait for replies",
                canRetry: true)
        }
        isQueueing = true
    }

    /// A message that was counted cannot be sent. Another one takes its place, so that the other end does not wait for it.
    mutating func replaceUnsent() {
        guard case .open = phase else { return }
        outbox.add(Outbox.Entry(message: MachPort.Message(id: SessionMessage.gap.rawValue), request: nil))
        isQueueing = true
    }

    /// The port to send the outbox's messages to; nil when there are none, or a task sends them already.
    var portToStartSending: RemoteMessagePort? {
        guard case .open(let remote) = phase, isQueueing, sender == nil else { return nil }
        return remote
    }

    /// Takes the next message to send. When there is none, further messages need not wait.
    mutating func takeQueued() -> Outbox.Entry? {
        guard case .open = phase else { return nil }
        if let entry = outbox.takeFirst() { return entry }
        (isQueueing, sender) = (false, nil)
        return nil
    }

    // MARK: Receiving

    /// The next item for the session's handlers.
    mutating func takeArrival() -> ArrivalOrder<Arrived>.Item? { arrivals.next(openRequests: asked.count) }

    // MARK: Requests

    /// Adds a request, and returns its number.
    mutating func ask(_ asker: Asker, _ observer: (any AskedRequestObserver)? = nil) -> UInt64 {
        lastRequest += 1
        asked[lastRequest] = Asked(asker: asker, observer: observer)
        return lastRequest
    }

    /// Notes that a request was sent, unless it has ended already.
    mutating func noteSent(_ number: UInt64, _ reply: AskedReply) { asked[number]?.reply = reply }

    /// Forgets a request that was not sent.
    mutating func forget(_ number: UInt64) { asked[number] = nil }

    /// A request that has ended.
    struct EndedRequest {
        let asked: Asked
        let outcome: Outcome
        /// Whether something waits for the session's queue.
        let hasArrivals: Bool
    }

    /// Ends a request: its handler waits for the session's queue.
    /// - Parameter isReply: Whether the other end has replied, and so has counted a reply.
    /// - Returns: Nil when the request has ended already.
    mutating func end(_ number: UInt64, _ outcome: Outcome, isReply: Bool) -> EndedRequest? {
        guard let asked = asked.removeValue(forKey: number) else { return nil }
        if case .handler(let handler) = asked.asker {
            // A reply's id is the number of messages before it.
            arrivals.add(after: try? outcome.get().id) { handler(outcome) }
        }
        if isReply { arrivals.noteReply() }
        return EndedRequest(asked: asked, outcome: outcome, hasArrivals: !arrivals.isEmpty)
    }

    /// Whether a session that nobody refers to has nothing left to do.
    var mayBeReleased: Bool {
        if case .open = phase { isReleased && asked.isEmpty && !isQueueing } else { false }
    }

    // MARK: The end

    /// Ends the session. Only the first error counts.
    /// - Parameter keepsRequests: Whether requests that were sent wait for their replies.
    /// - Returns: Whether the session had not ended before, and the requests that end with it.
    mutating func end(_ error: XPCRichError, keepsRequests: Bool) -> (isFirst: Bool, requests: [EndedRequest]) {
        var numbers = asked.keys.sorted()
        if keepsRequests {
            let unsent = Set(outbox.requests)
            numbers.removeAll { !unsent.contains($0) }
        }
        let ended = numbers.compactMap { end($0, .failure(error), isReply: false) }
        if case .ended = phase { return (false, ended) }
        phase = .ended(error)
        return (true, ended)
    }

    /// The parts of an ended session whose requests all have their outcomes: once.
    struct Remains {
        let error: XPCRichError
        let queue: DispatchQueue?
        let port: LocalMessagePort?
        let watch: InvalidationWatch?
        let sender: Task<Void, Never>?
        let cancellation: CancellationHandler?
        /// Whether something that has come waits for the queue.
        let hasArrivals: Bool
        /// Released after the lock.
        let others: [(any Sendable)?]
    }

    mutating func finish() -> Remains? {
        guard case .ended(let error) = phase, asked.isEmpty, !isFinished else { return nil }
        isFinished = true
        arrivals.isOver = true
        defer {
            outbox = Outbox()
            (port, watch, sender, hello, itself, handle) = (nil, nil, nil, nil, nil, nil)
            (incoming, cancellation, observer) = (nil, nil, nil)
        }
        return Remains(
            error: error, queue: queue, port: port, watch: watch, sender: sender, cancellation: cancellation,
            hasArrivals: !arrivals.isEmpty,
            others: [hello, itself, handle, incoming, observer, outbox])
    }
}
