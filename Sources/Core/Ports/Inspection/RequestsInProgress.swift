import RunLoops

/// The requests in progress of a message port, for a ``PortObservation``.
struct RequestsInProgress {
    /// The handlers of the `serve` in progress; nil for none.
    private(set) var handlers: PortInfo.Takers.Handlers?
    /// The tasks in `serve` that have room for a handler, and so wait for a message.
    private(set) var servingTasks = 0
    /// The number of requests, without those that may last.
    private(set) var count = 0
    private(set) var lastingCount = 0
    private(set) var oldest: [PortInfo.Request] = []
    /// By the processes of the askers.
    private(set) var counts: [Int32: Int] = [:]
    /// The message that a thread has in hand, if that is a request: the last request with its id that was taken.
    private(set) var inHand: PortInfo.Request?
    /// The messages in handlers of tasks that want no reply, the oldest first.
    private(set) var oneWay: [PortInfo.Handled] = []

    /// The most requests in an answer, of each of two sorts.
    fileprivate static let most = 16

    init(_ requests: RequestLedger?, _ inspector: Inspector, inHand: MessageInHand.Note?) {
        guard let requests else { return }
        let looks = requests.serving.lanes.map(\.look)
        servingTasks = looks.count { $0.fullLane == nil }
        if !looks.isEmpty {
            handlers = PortInfo.Takers.Handlers(
                count: looks.reduce(0) { $0 + $1.count },
                limit: looks.reduce(0) { $0 + min($1.limit, BoundedCoding.mostCount) },
                fullLane: servingTasks == 0 ? looks.first?.fullLane?.bounded : nil)
        }
        var (due, others): ([Known], [Known]) = ([], [])
        var (askers, last): ([PortID: Int], Known?) = ([:], nil)
        func note(_ request: Known) {
            if request.mayLast { lastingCount += 1 } else { count += 1 }
            if request.mayLast || request.isReplying { others.note(request) } else { due.note(request) }
        }
        requests.forEach { entry, kind in
            // Its transport tells it.
            if kind?.placesOf != nil { return }
            let request = Known.entry(entry, kind)
            note(request)
            askers[entry.asker, default: 0] += 1
            if let inHand, inHand.isRequest, inHand.id == entry.subject, entry.since >= last?.since ?? entry.since {
                last = request
            }
        }
        for request in requests.serving.foreignRequests { note(.foreign(request)) }
        let now = MonotonicInstant.now
        oldest = (due + others).map { $0.described(now, inspector) }
        self.inHand = last?.described(now, inspector)
        for (asker, count) in askers {
            counts[inspector.context.channels.identity(of: asker).pid ?? 0, default: 0] += count
        }
        oneWay = requests.serving.oneWay.sorted { $0.since < $1.since }.prefix(Self.most).map { work in
            let sender = work.message.sender?.pid ?? 0
            return PortInfo.Handled(
                id: work.message.header.id, name: requests.name(ofRequests: work.message.header.id)?.bounded,
                isRequest: false,
                pid: sender, program: ProcessIdentity(pid: sender).program, age: work.since.duration(to: now),
                isOlder: false)
        }
    }
}

/// A request in progress, as the port or another transport knows it.
private enum Known {
    case entry(RequestRecords.Entry, RequestKind?)
    case foreign(ForeignRequest)

    var since: MonotonicInstant {
        switch self {
        case .entry(let entry, _): entry.since
        case .foreign(let request): request.since
        }
    }

    var mayLast: Bool {
        switch self {
        case .entry(_, let kind): kind?.mayLast ?? false
        case .foreign(let request): request.mayLast
        }
    }

    var isReplying: Bool { if case .entry(let entry, _) = self { entry.isReplying } else { false } }

    func described(_ now: MonotonicInstant, _ inspector: Inspector) -> PortInfo.Request {
        switch self {
        case .entry(let entry, let kind):
            let asker = inspector.context.channels.identity(of: entry.asker)
            return PortInfo.Request(
                id: entry.subject, name: kind?.name.bounded, pid: asker.pid ?? 0, program: asker.program, origin: nil,
                age: since.duration(to: now), mayLast: mayLast, isReplying: isReplying,
                isCancelled: inspector.isCancelled(entry))
        case .foreign(let request):
            return PortInfo.Request(
                id: request.id, name: request.name.bounded, pid: 0, program: nil, origin: request.origin.bounded,
                age: since.duration(to: now), mayLast: mayLast, isReplying: false, isCancelled: request.isCancelled)
        }
    }
}

extension [Known] {
    /// Keeps the oldest, in their order.
    fileprivate mutating func note(_ request: Known) {
        if count == RequestsInProgress.most, let last, last.since <= request.since { return }
        insert(request, at: firstIndex { $0.since > request.since } ?? endIndex)
        if count > RequestsInProgress.most { removeLast() }
    }
}
