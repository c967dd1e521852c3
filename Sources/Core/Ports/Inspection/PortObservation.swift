import Glibc
import RunLoops

/// Observes for a moment who could take a port's messages, and whether somebody does.
final class PortObservation: Sendable {
    private let port: Receiver
    private let inspector: Inspector
    private let duration: Duration

    /// The most senders whose programs are looked up, because each takes a call of the system on the housekeeping thread.
    private static let mostPrograms = 64

    init(_ port: Receiver, _ inspector: Inspector, for duration: Duration) {
        (self.port, self.inspector) = (port, inspector)
        self.duration = min(duration, PortQuestion.longestObservation)
    }

    /// The statistics and the senders at one moment.
    private struct Snapshot {
        let time = MonotonicInstant.now
        let statistics: PortStatistics
        /// By their processes.
        let senders: [pid_t: Sent]
    }

    /// The messages that the connections of a process have sent. The process may have ended.
    private struct Sent {
        var sent = 0
        var sinceEmpty = 0
        /// The name of the program of a process that has ended.
        var former: String?
        var hasEnded = false
    }

    /// - Parameter report: Called once; nil stands for a port that is gone.
    func begin(_ report: @escaping @Sendable (PortInfo?) -> Void) {
        takeSnapshot { [self] first in
            guard let first else { return report(nil) }
            _ = port.timeSinceTaken
            let takers = port.takers.look
            let loops = takers.places.map(loop)
            // There is nothing to observe.
            if first.statistics.waiting == 0,
                port.intake.turnCount == takers.waiters.count(where: { $0 is ThreadWaiter }),
                loops.allSatisfy({ $0.busyFor == nil }), port.requests?.isEmpty != false,
                port.iteratingTasks.load(ordering: .relaxed) <= takers.waiters.count(where: { $0 is TaskWaiter }),
                port.ledger?.serving.oneWay.isEmpty != false,
                port.ledger?.serving.foreignRequests.isEmpty != false
            {
                return report(info(first, first, takers, loops, [:]))
            }
            let sample = TakenSample()
            port.intake.addTap(sample)
            inspector.context.housekeeping.perform(after: duration) { [self] in
                port.intake.removeTap(sample)
                takeSnapshot { [self] last in
                    let takers = port.takers.look
                    report(last.map { info(first, $0, takers, takers.places.map(loop), sample.counts) })
                }
            }
        }
    }

    private func takeSnapshot(_ body: @escaping @Sendable (Snapshot?) -> Void) {
        inspector.statistics.collect(for: port.id.number) { [self] found in
            let snapshot = found.statistics.map { Snapshot(statistics: $0, senders: senders) }
            inspector.turns.add { body(snapshot) }
        }
    }

    private var senders: [pid_t: Sent] {
        let (counts, own) = (port.counts.withLock { $0 }, port.channel.acceptedCount)
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

    /// - Parameters:
    ///   - taken: A sample of the messages that were taken meanwhile, by their senders' processes.
    ///   - requests: The number of requests in progress of each process.
    private func senders(
        _ first: Snapshot, _ last: Snapshot, _ taken: [pid_t: Int], _ requests: [pid_t: Int]
    ) -> [PortInfo.Sender] {
        var found = last.senders
        for (pid, count) in taken where found[pid] == nil {
            // The process has sent more than the port knows of, or has ended and its last message was taken.
            let hasEnded = pid > 0 && ProcessStatus.isEnding(pid)
            found[pid] = Sent(
                sent: max(count, first.senders[pid]?.sent ?? 0), sinceEmpty: last.statistics.waiting,
                former: first.senders[pid]?.former, hasEnded: hasEnded)
        }
        // The counts of senders that were never asked are unknown. Perhaps they have sent nothing, as one that has only looked
        // the name up. They may have sent what no other sender has.
        let known = found.values.reduce(0) { $0 &+ $1.sinceEmpty }
        for (pid, sender) in found where sender.sent == 0 {
            let taken = taken[pid] ?? 0
            found[pid]?.sent = taken
            found[pid]?.sinceEmpty = max(min(taken, 1), last.statistics.waiting &- known)
        }
        let (rings, descriptors, memory) = (port.ringSenders, port.waitingDescriptors, port.waitingMemory)
        let most = found.sorted { $0.value.sent > $1.value.sent }.prefix(BoundedCoding.most)
        return most.enumerated().map { index, sender in
            let (pid, sent) = sender
            let hasProgram = !sent.hasEnded && index < Self.mostPrograms
            return PortInfo.Sender(
                pid: pid, program: hasProgram ? ProcessStatus.program(of: pid) : sent.former, sent: sent.sent,
                recently: max(0, sent.sent - (first.senders[pid] ?? Sent()).sent), taken: taken[pid] ?? 0,
                sinceEmpty: sent.sinceEmpty, hasEnded: sent.hasEnded, requests: requests[pid] ?? 0,
                usesSharedMemory: rings.contains(pid), withDescriptors: descriptors[pid] ?? 0, memory: memory[pid] ?? 0)
        }
    }

    private func info(
        _ first: Snapshot, _ last: Snapshot, _ takers: Takers.Look, _ loops: [PortInfo.Loop],
        _ taken: [pid_t: Int]
    ) -> PortInfo {
        let iteratingTasks = port.iteratingTasks.load(ordering: .relaxed)
        let receivers = takers.waiters.count { !($0 is PollTaker) }
        let note = port.inHand.look()
        let requests = RequestsInProgress(port.ledger, inspector, inHand: note)
        var info = PortInfo(
            takers: .init(
                hasHandler: port.intake.hasHandler, loops: loops,
                queue: takers.queue.map { .init(label: $0.label.bounded, isBusy: $0.isBusy) },
                waitingThreads: takers.waiters.count { $0 is ThreadWaiter },
                waitingTasks: takers.waiters.count { $0 is TaskWaiter }, servingTasks: requests.servingTasks,
                iteratingTasks: iteratingTasks,
                // Tasks in `for await` have a count of their own, and a port of a loop or a queue needs no receiver.
                isReceiverAway: iteratingTasks + receivers == 0 && loops.isEmpty && takers.queue == nil
                    && port.isReceiverAway.load(ordering: .relaxed),
                descriptors: takers.waiters.count { $0 is PollTaker }, handlingThreads: port.intake.turnCount,
                handlers: requests.handlers),
            queue: .init(
                received: last.statistics.received, waiting: last.statistics.waiting,
                limit: port.limits.queue, observed: first.time.duration(to: last.time),
                handled: last.statistics.received - first.statistics.received,
                waitingBefore: first.statistics.waiting),
            senders: senders(first, last, taken, requests.counts),
            requests: .init(count: requests.count, lasting: requests.lastingCount, oldest: requests.oldest),
            handling: [], awaited: awaited, reportedPools: inspector.pools.all, descriptor: takers.descriptor)
        info.handling = inHand(info, note, requests.inHand) + requests.oneWay
        return info
    }

    /// The message that a thread or a task has in hand, other than those of `serve`.
    private func inHand(
        _ info: PortInfo, _ note: MessageInHand.Note?, _ request: PortInfo.Request?
    ) -> [PortInfo.Handled] {
        guard let note, info.queue.observed > .zero, info.isHandling || info.takers.isReceiverAway else {
            return []
        }
        let (sender, age) = (note.sender ?? request?.pid ?? 0, port.timeSinceTaken)
        return [
            PortInfo.Handled(
                id: note.id, name: port.requests?.name(ofRequests: note.id)?.bounded, isRequest: note.isRequest,
                pid: sender, program: sender == 0 ? nil : ProcessIdentity(pid: sender).program,
                age: request?.age ?? age, isOlder: request == nil)
        ]
    }

    private func loop(_ loop: ThreadRunLoop, _ modes: [ThreadRunLoop.Mode]) -> PortInfo.Loop {
        let activity = inspector.loops.activity(of: loop)
        let isIdle = activity.isWaiting || activity.modes.isEmpty
        return PortInfo.Loop(
            thread: Int(activity.threadID), threadName: ProcessStatus.name(ofThread: activity.threadID) ?? "",
            modes: modes.map(\.rawValue.bounded), running: activity.modes.map(\.rawValue.bounded),
            isWaiting: activity.isWaiting, callout: isIdle ? nil : activity.callout.bounded,
            busyFor: activity.passStart.map { $0.duration(to: .now) },
            isBusyForLonger: activity.passStart != nil && activity.isStartUnknown,
            isComputing: ProcessStatus.isComputing(thread: activity.threadID))
    }

    private var awaited: [PortInfo.Awaited] {
        var found: [PortID: (replies: Int, senders: Int)] = [:]
        for (port, count) in inspector.pending.counts(atMost: BoundedCoding.most) { found[port] = (count, 0) }
        for channel in inspector.context.channels.waitedFor.prefix(BoundedCoding.most) {
            let count = channel.waiterCount
            if count > 0 { found[channel.id, default: (0, 0)].senders = count }
        }
        return found.prefix(BoundedCoding.most).map { port, counts in
            PortInfo.Awaited(
                port: port.description, title: inspector.context.channels.identity(of: port).description,
                replies: counts.replies, senders: counts.senders)
        }
    }
}

extension PortInfo {
    /// Whether a thread, or a task in `for await`, handles a message.
    package var isHandling: Bool {
        takers.handlingThreads > takers.waitingThreads || takers.busyTasks > 0 && queue.received > 0
    }
}

extension PortInfo.Takers {
    /// An estimate of the tasks in `for await` that handle a message, because a task may also wait without a `for await`.
    package var busyTasks: Int { max(0, iteratingTasks - max(0, waitingTasks - servingTasks)) }
}

extension Receiver {
    /// A lower bound for the time since the last message was taken: the time since the first observation after that.
    fileprivate var timeSinceTaken: Duration {
        let taken = intake.totals.taken
        return counts.withLock { $0.timeSinceTaken(taken) }
    }
}
