import DequeModule

/// The requests whose ends are monitored.
struct MonitoredRequests {
    typealias Handler = @Sendable (RequestEnd) -> Void

    private var handlers: [AcceptedRequests.ID: Handler] = [:]
    /// In the order of their arrival, including some that have ended.
    private var order: Deque<AcceptedRequests.ID> = []

    static let most = 4096

    var isEmpty: Bool { handlers.isEmpty }

    /// - Returns: The handler of the oldest request, when there are too many.
    mutating func add(_ request: AcceptedRequests.ID, _ handler: @escaping Handler) -> Handler? {
        let former = handlers.updateValue(handler, forKey: request)
        if former == nil { order.append(request) }
        if order.count > 2 * Self.most { order.removeAll { handlers[$0] == nil } }
        while handlers.count > Self.most, let oldest = order.popFirst() {
            if let handler = handlers.removeValue(forKey: oldest) { return handler }
        }
        return former
    }

    func handler(of request: AcceptedRequests.ID) -> Handler? { handlers[request] }

    mutating func remove(_ request: AcceptedRequests.ID) -> Handler? {
        let handler = handlers.removeValue(forKey: request)
        if handlers.isEmpty { order = [] }
        return handler
    }
}

/// The end of a request, for monitors of its port.
enum RequestEnd {
    case answered
    /// Nobody waits for the reply any more. Another end follows.
    case cancelled
    /// A failure was sent in place of the reply.
    case failed
    /// Dropped without a reply, or refused.
    case unanswered
    /// There were too many requests, and the end of this one will not be seen.
    case forgotten
}
