import Glibc
import RunLoops

/// A look at a port that lasts a moment: who could take its messages, and whether somebody does.
final class ServiceLook: Sendable {
    private let port: Receiver
    private let inspector: Inspector
    private let duration: Duration

    /// The longest look, so that nobody has the owner look for ever.
    static let longest = Duration.seconds(10)
    /// The most senders whose programs are looked up: each takes a call of the system on the housekeeping thread.
    private static let mostPrograms = 64

    init(_ port: Receiver, _ inspector: Inspector, for duration: Duration) {
        (self.port, self.inspector) = (port, inspector)
        self.duration = min(duration, Self.longest)
    }

    /// What was to be seen at one moment.
    private struct Sight {
        let time = MonotonicInstant.now
        let statistics: PortStatistics
        /// By their processes.
        let senders: [pid_t: Sent]
    }

    /// What the connections of a process, or of one that has ended, have sent.
    private struct Sent {
        var sent = 0
        var sinceEmpty = 0
        /// The name of the program of a process that has ended.
        var former: String?
        var hasEnded = false
    }

    /// - Parameter tell: Called once; nil stands for a port that is gone.
    func begin(_ tell: @escaping @Sendable (PortService?) -> Void) {
        look { [self] first in
            guard let first else { return tell(nil) }
            _ = port.timeSinceTaken
            let takers = port.takers
            let loops = takers.places.map(loop)
            // Nothing to see.
            if first.statistics.waiting == 0, takers.turnCount == takers.waiters.count(where: { $0 is ThreadWaiter }),
                loops.allSatisfy({ $0.busyFor == nil }), port.requests?.isEmpty != false,
                port.iteratingTasks.load(ordering: .relaxed) <= takers.waiters.count(where: { $0 is TaskWaiter }),
                port.requests?.oneWay.isEmpty != false
            {
                return tell(service(first, first, takers, loops, [:]))
            }
            let sample = TakenSample()
            port.addTap(sample)
            inspector.context.housekeeping.perform(after: duration) { [self] in
                port.removeTap(sample)
                look { [self] last in
                    let takers = port.takers
                    tell(last.map { service(first, $0, takers, takers.places.map(loop), sample.counts) })
                }
            }
        }
    }

    private func look(_ body: @escaping @Sendable (Sight?) -> Void) {
        inspector.statistics.collect(for: port.id.number) { [self] found in
            body(found.statistics.map { Sight(statistics: $0, senders: senders) })
        }
    }

    private var senders: [pid_t: Sent] {
        let (counts, own) = (port.counts, port.channel.acceptedCount)
        var senders = [getpid(): Sent(sent: own, sinceEmpty: counts.sinceEmpty(ownSent: own))]
        func add(_ sent: Int, _ sinceEmpty: Int, of pid: pid_t) {
            senders[pid, default: Sent()].sent += sent
            senders[pid, default: Sent()].sinceEmpty += sinceEmpty
        }
        for peer in inspector.context.control.watchers(of: port.id.number) {
            add(counts.sent[peer.incarnation] ?? 0, counts.sinceEmpty(by: peer.incarnation), of: peer.pid)
        }
        for ended in counts.ended {
            let pid = ended.sender.pid
            if senders[pid] == nil { senders[pid] = Sent(former: ended.sender.program, hasEnded: true) }
            add(ended.sent, ended.sinceEmpty, of: pid)
        }
        return senders.filter { $0.value.sent > 0 || $0.value.hasEnded }
    }

    /// - Parameter taken: A sample of the messages that were taken meanwhile, by their senders' processes.
    /// - Parameter requests: How many requests of each process are in progress.
    private func senders(
        _ first: Sight, _ last: Sight, _ taken: [pid_t: Int], _ requests: [pid_t: Int]
    ) -> [PortService.Sender] {
        var found = last.senders
        for (pid, count) in taken where found[pid] == nil {
            // The process has sent more than the port knows of, or has ended and its last message was taken.
            let hasEnded = pid > 0 && ProcessStatus.isEnding(pid)
            found[pid] = Sent(
                sent: max(count, first.senders[pid]?.sent ?? 0), sinceEmpty: last.statistics.waiting,
                former: first.senders[pid]?.former, hasEnded: hasEnded)
        }
        // Of those that were never asked, only who is known, and perhaps they have sent nothing, such as one that has
        // looked the name up: what no other has sent may be theirs.
        let known = found.values.reduce(0) { $0 &+ $1.sinceEmpty }
        for (pid, sender) in found where sender.sent == 0 {
            let taken = taken[pid] ?? 0
            found[pid]?.sent = taken
            found[pid]?.sinceEmpty = max(min(taken, 1), last.statistics.waiting &- known)
        }
        let most = found.sorted { $0.value.sent > $1.value.sent }.prefix(FieldWriter.most)
        return most.enumerated().map { index, sender in
            let (pid, sent) = sender
            let hasProgram = !sent.hasEnded && index < Self.mostPrograms
            return PortService.Sender(
                pid: pid, program: hasProgram ? ProcessStatus.program(of: pid) : sent.former, sent: sent.sent,
                recently: max(0, sent.sent - (first.senders[pid] ?? Sent()).sent), taken: taken[pid] ?? 0,
                sinceEmpty: sent.sinceEmpty, hasEnded: sent.hasEnded, requests: requests[pid] ?? 0)
        }
    }

    private func service(
        _ first: Sight, _ last: Sight, _ takers: Receiver.Takers, _ loops: [PortService.Loop], _ taken: [pid_t: Int]
    ) -> PortService {
        let iteratingTasks = port.iteratingTasks.load(ordering: .relaxed)
        let receivers = takers.waiters.count { !($0 is PollService) }
        let note = port.inHand.look()
        let requests = RequestsInProgress(port.requests, inspector, inHand: note)
        let service = PortService(
            pid: getpid(), hasHandler: takers.hasHandler, loops: loops, queue: takers.queue,
            waitingThreads: takers.waiters.count { $0 is ThreadWaiter },
            waitingTasks: takers.waiters.count { $0 is TaskWaiter },
            iteratingTasks: iteratingTasks,
            // A task in `for await` is told of by itself, and a port that a loop or a queue has needs no receiver.
            isReceiverAway: iteratingTasks + receivers == 0 && loops.isEmpty && takers.queue == nil
                && port.isReceiverAway.load(ordering: .relaxed),
            descriptors: takers.waiters.count { $0 is PollService }, handlingThreads: takers.turnCount,
            observed: first.time.duration(to: last.time),
            handled: last.statistics.received - first.statistics.received,
            waitingBefore: first.statistics.waiting, received: last.statistics.received,
            waiting: last.statistics.waiting, queueLimit: Int(port.channel.right.queueLimit),
            senders: senders(first, last, taken, requests.counts), awaited: awaited,
            handlers: requests.handlers, requestCount: requests.count, lastingCount: requests.lastingCount,
            requests: requests.oldest, servingTasks: requests.servingTasks)
        return service.with(handling: inHand(service, note, requests.inHand) + requests.oneWay)
    }

    /// The message that a thread or a task has, other than those of `serve`.
    private func inHand(
        _ service: PortService, _ note: MessageInHand.Note?, _ request: PortService.Request?
    ) -> [PortService.Handled] {
        guard let note, service.observed > .zero, service.isHandling || service.isReceiverAway else { return [] }
        let (sender, age) = (note.sender ?? request?.pid ?? 0, port.timeSinceTaken)
        return [
            PortService.Handled(
                id: note.id, name: port.requests?.kind(of: note.id)?.name, isRequest: note.isRequest, pid: sender,
                program: sender == 0 ? nil : ProcessIdentity(pid: sender).program, age: request?.age ?? age,
                isOlder: request == nil)
        ]
    }

    private func loop(_ loop: ThreadRunLoop, _ modes: [ThreadRunLoop.Mode]) -> PortService.Loop {
        let activity = inspector.loops.activity(of: loop)
        let isIdle = activity.isWaiting || activity.modes.isEmpty
        return PortService.Loop(
            thread: Int(activity.threadID), threadName: ProcessStatus.name(ofThread: activity.threadID) ?? "",
            modes: modes.map(\.rawValue), running: activity.modes.map(\.rawValue), isWaiting: activity.isWaiting,
            callout: isIdle ? nil : activity.callout, busyFor: activity.passStart.map { $0.duration(to: .now) },
            isBusyForLonger: activity.passStart != nil && activity.isStartUnknown,
            isComputing: ProcessStatus.isComputing(thread: activity.threadID))
    }

    private var awaited: [PortService.Awaited] {
        var found = inspector.pending.counts.mapValues { (replies: $0, senders: 0) }
        for channel in inspector.context.channels.all where channel.waiterCount > 0 {
            found[channel.id, default: (0, 0)].senders = channel.waiterCount
        }
        return found.prefix(FieldWriter.most).map { port, counts in
            PortService.Awaited(
                port: port.description, title: inspector.context.channels.identity(of: port).description,
                replies: counts.replies, senders: counts.senders)
        }
    }
}

extension PortService {
    fileprivate func with(handling: [Handled]) -> PortService {
        var service = self
        service.handling = handling
        return service
    }
}

extension Receiver {
    /// Who could take a port's messages.
    fileprivate struct Takers {
        let hasHandler: Bool
        let places: [(loop: ThreadRunLoop, modes: [ThreadRunLoop.Mode])]
        let queue: PortService.Queue?
        let waiters: [any Waiter]
        let turnCount: Int
    }

    fileprivate var takers: Takers {
        let (hasHandler, source, queue, waiters, turnCount) = state.withLock { state in
            (
                state.handlers.message != nil || state.handlers.ofDelegate != nil, state.source, state.queue,
                state.waiters, state.lifecycle.turnCount
            )
        }
        return Takers(
            hasHandler: hasHandler, places: source?.places ?? [],
            queue: queue.map { PortService.Queue(label: $0.label, isBusy: $0.isBusy) }, waiters: waiters,
            turnCount: turnCount)
    }

    fileprivate var counts: StatisticsCounts { state.withLock { $0.counts } }

    /// For how long no message was taken, at least: since somebody first looked.
    fileprivate var timeSinceTaken: Duration {
        state.withLock { state in
            let now = MonotonicInstant.now
            if state.seen?.taken != state.counts.taken { state.seen = (state.counts.taken, now) }
            return state.seen?.since.duration(to: now) ?? .zero
        }
    }

    /// The loops that have the port, and the modes.
    var places: [(loop: ThreadRunLoop, modes: [ThreadRunLoop.Mode])] { state.withLock { $0.source }?.places ?? [] }
}
