import Dispatch
import Ports
import RunLoops

/// The state of one end of a session: it decides about messages and requests, and has no effects.
struct SessionState {
    typealias IncomingHandler = @Sendable (XPCReceivedMessage) -> (any Encodable)?
    typealias CancellationHandler = @Sendable (XPCRichError) -> Void
    typealias Completion = @Sendable (Result<MachPort.Message, XPCRichError>) -> Void

    enum Phase {
        case inactive
        /// The listener has not replied yet. The messages wait in their order.
        case connecting(waiting: [Outgoing])
        case open(RemoteMessagePort)
        case ended(XPCRichError)
    }

    /// A message that waits for the connection.
    struct Outgoing {
        let message: MachPort.Message
        /// The number of a request in ``asked``; nil for a message without a reply.
        let request: UInt64?
    }

    /// A request that waits for its reply.
    struct Asked {
        let completion: Completion
        /// Nil until the request is sent.
        var reply: AskedReply?
    }

    /// The most messages that wait for the connection.
    static let mostWaiting = 1000

    var phase = Phase.inactive
    var incoming: IncomingHandler?
    var cancellation: CancellationHandler?
    var requirement: XPCPeerRequirement?
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
    var itself: SessionCore?
    /// A listener's active session keeps the object that its handlers may refer to.
    var handle: XPCSession?
    /// Whether nobody refers to the client's session, which ends after its last reply.
    var isReleased = false
    private(set) var isFinished = false
    private var asked: [UInt64: Asked] = [:]
    private var lastRequest: UInt64 = 0

    /// How a message goes on.
    enum Way {
        case now(RemoteMessagePort)
        case later
    }

    // MARK: Sending

    /// Decides about a message. Until the session is open, messages wait here.
    mutating func send(_ message: MachPort.Message, request: UInt64? = nil) throws(XPCRichError) -> Way {
        switch phase {
        case .inactive: throw XPCRichError("the session is inactive: activate it before messages are sent")
        case .ended(let error): throw error
        case .open(let remote): return .now(remote)
        case .connecting(var waiting):
            guard waiting.count < Self.mostWaiting else {
                throw XPCRichError("\(waiting.count) messages wait for the session's listener already", canRetry: true)
            }
            waiting.append(Outgoing(message: message, request: request))
            phase = .connecting(waiting: waiting)
            return .later
        }
    }

    /// Takes the messages that wait. When none does, the session is open.
    mutating func takeWaiting(for remote: RemoteMessagePort) -> [Outgoing] {
        guard case .connecting(let waiting) = phase else { return [] }
        phase = waiting.isEmpty ? .open(remote) : .connecting(waiting: [])
        return waiting
    }

    // MARK: Requests

    /// Adds a request, and returns its number.
    mutating func ask(_ completion: @escaping Completion) -> UInt64 {
        lastRequest += 1
        asked[lastRequest] = Asked(completion: completion)
        return lastRequest
    }

    /// Notes that a request was sent, unless it has ended already.
    mutating func noteSent(_ number: UInt64, _ reply: AskedReply) { asked[number]?.reply = reply }

    func isAsked(_ number: UInt64) -> Bool { asked[number] != nil }

    /// Removes a request that has its outcome.
    mutating func takeAsked(_ number: UInt64) -> Asked? { asked.removeValue(forKey: number) }

    /// Whether a session that nobody refers to has nothing left to do.
    var mayBeReleased: Bool {
        if case .open = phase { isReleased && asked.isEmpty } else { false }
    }

    // MARK: The end

    /// Ends the session. Only the first error counts.
    /// - Returns: False when the session had ended before.
    mutating func end(_ error: XPCRichError) -> Bool {
        if case .ended = phase { return false }
        phase = .ended(error)
        return true
    }

    mutating func takeAllAsked() -> [Asked] {
        defer { asked = [:] }
        return asked.sorted { $0.key < $1.key }.map(\.value)
    }

    /// The parts of an ended session whose requests all have their outcomes: once.
    struct Remains {
        let error: XPCRichError
        let queue: DispatchQueue?
        let port: LocalMessagePort?
        let watch: InvalidationWatch?
        let cancellation: CancellationHandler?
        /// Released after the lock.
        let others: [(any Sendable)?]
    }

    mutating func finish() -> Remains? {
        guard case .ended(let error) = phase, asked.isEmpty, !isFinished else { return nil }
        isFinished = true
        defer {
            (port, watch, hello, itself, handle) = (nil, nil, nil, nil, nil)
            (incoming, cancellation) = (nil, nil)
        }
        return Remains(
            error: error, queue: queue, port: port, watch: watch, cancellation: cancellation,
            others: [hello, itself, handle, incoming])
    }
}
