import RunLoops

/// What a look at a message port says of its requests.
struct RequestsInProgress {
    /// Those of the `serve` in progress; nil for none.
    private(set) var handlers: PortService.Handlers?
    /// The `serve` in progress that have room for a handler: each has a task that waits for a message.
    private(set) var waitingServers = 0
    /// Without streams.
    private(set) var count = 0
    private(set) var streamCount = 0
    private(set) var oldest: [PortService.Request] = []

    /// The most requests that are told of, and the most streams.
    private static let most = 16

    init(_ taken: TakenRequests?, _ inspector: Inspector) {
        guard let taken else { return }
        let slots = taken.slots
        waitingServers = slots.count { $0.used < $0.count }
        if !slots.isEmpty {
            handlers = PortService.Handlers(
                count: slots.reduce(0) { $0 + $1.used },
                limit: slots.reduce(0) { $0 + min($1.count, FieldReader.mostCount) })
        }
        let now = MonotonicInstant.now
        for entry in taken.all {
            let kind = taken.kind(of: entry.subject)
            let isStream = kind?.isStream ?? false
            if isStream { streamCount += 1 } else { count += 1 }
            guard (isStream ? streamCount : count) <= Self.most else { continue }
            let asker = inspector.context.channels.identity(of: entry.asker)
            oldest.append(
                PortService.Request(
                    id: entry.subject, name: kind?.name, pid: asker.pid ?? 0, program: asker.program,
                    age: entry.since.duration(to: now), isStream: isStream, isCancelled: inspector.isCancelled(entry)))
        }
    }
}
