import RunLoops

/// What a look at a message port says of its requests.
struct RequestsInProgress {
    /// Those of the `serve` in progress; nil for none.
    private(set) var handlers: PortService.Handlers?
    /// The tasks of those that have room for a handler, and so wait for a message.
    private(set) var servingTasks = 0
    /// Without those that may last.
    private(set) var count = 0
    private(set) var lastingCount = 0
    private(set) var oldest: [PortService.Request] = []

    /// The most requests that are told of, of each of two sorts.
    fileprivate static let most = 16

    init(_ taken: TakenRequests?, _ inspector: Inspector) {
        guard let taken else { return }
        let slots = taken.slots
        servingTasks = slots.count { $0.used < $0.count }
        if !slots.isEmpty {
            handlers = PortService.Handlers(
                count: slots.reduce(0) { $0 + $1.used },
                limit: slots.reduce(0) { $0 + min($1.count, FieldReader.mostCount) })
        }
        var (due, others): ([Known], [Known]) = ([], [])
        taken.forEach { entry, kind in
            let mayLast = kind?.mayLast ?? false
            if mayLast { lastingCount += 1 } else { count += 1 }
            let request = Known(entry: entry, kind: kind)
            if mayLast || entry.isReplying { others.note(request) } else { due.note(request) }
        }
        let now = MonotonicInstant.now
        oldest = (due + others).map { request in
            let (entry, kind) = (request.entry, request.kind)
            let asker = inspector.context.channels.identity(of: entry.asker)
            return PortService.Request(
                id: entry.subject, name: kind?.name, pid: asker.pid ?? 0, program: asker.program,
                age: entry.since.duration(to: now), mayLast: kind?.mayLast ?? false, isReplying: entry.isReplying,
                isCancelled: inspector.isCancelled(entry))
        }
    }
}

private struct Known {
    let entry: TakenRequests.Entry
    let kind: RequestKind?
}

extension [Known] {
    /// Keeps the oldest, in their order.
    fileprivate mutating func note(_ request: Known) {
        if count == RequestsInProgress.most, let last, last.entry.since <= request.entry.since { return }
        insert(request, at: firstIndex { $0.entry.since > request.entry.since } ?? endIndex)
        if count > RequestsInProgress.most { removeLast() }
    }
}
