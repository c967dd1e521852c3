import Glibc
import RunLoops

/// A look at a port that lasts a moment: who could take its messages, and whether somebody does.
final class ServiceLook: Sendable {
    private let port: Receiver
    private let inspector: Inspector
    private let duration: Duration

    /// The longest look, so that nobody has the owner look for ever.
    static let longest = Duration.seconds(10)

    init(_ port: Receiver, _ inspector: Inspector, for duration: Duration) {
        (self.port, self.inspector) = (port, inspector)
        self.duration = min(duration, Self.longest)
    }

    /// What was to be seen at one moment.
    private struct Sight {
        let time = MonotonicInstant.now
        let statistics: PortStatistics
        /// By the senders' processes.
        let sent: [pid_t: Int]
    }

    /// - Parameter tell: Called once; nil stands for a port that is gone.
    func begin(_ tell: @escaping @Sendable (PortService?) -> Void) {
        look { [self] first in
            guard let first else { return tell(nil) }
            let now = service(first, first)
            // Nothing to see.
            if now.waiting == 0, now.handlingThreads == now.waitingThreads, now.loops.allSatisfy({ $0.busyFor == nil })
            {
                return tell(now)
            }
            inspector.context.housekeeping.perform(after: duration) {
                self.look { last in tell(last.map { self.service(first, $0) }) }
            }
        }
    }

    private func look(_ body: @escaping @Sendable (Sight?) -> Void) {
        inspector.statistics.collect(for: port.id.number) { [self] found in
            body(found.statistics.map { Sight(statistics: $0, sent: sentByProcess) })
        }
    }

    private var sentByProcess: [pid_t: Int] {
        var sent = [getpid(): port.channel.acceptedCount]
        let counts = port.sentCounts
        for peer in inspector.context.control.watchers(of: port.id.number) {
            sent[peer.pid, default: 0] &+= counts[peer.incarnation] ?? 0
        }
        return sent.filter { $0.value > 0 }
    }

    private func service(_ first: Sight, _ last: Sight) -> PortService {
        let takers = port.takers
        let senders = last.sent.sorted { $0.value > $1.value }.prefix(FieldWriter.most).map { pid, sent in
            PortService.Sender(
                pid: pid, program: ProcessStatus.program(of: pid), sent: sent, recently: sent - (first.sent[pid] ?? 0))
        }
        return PortService(
            pid: getpid(), hasHandler: takers.hasHandler, loops: takers.places.map(loop), queue: takers.queue,
            waitingThreads: takers.waiters.count { $0 is ThreadWaiter },
            waitingTasks: takers.waiters.count { $0 is TaskWaiter },
            iteratingTasks: port.iteratingTasks.load(ordering: .relaxed),
            descriptors: takers.waiters.count { $0 is PollService }, handlingThreads: takers.turnCount,
            observed: first.time.duration(to: last.time),
            handled: last.statistics.received - first.statistics.received,
            waitingBefore: first.statistics.waiting, received: last.statistics.received,
            waiting: last.statistics.waiting, queueLimit: Int(port.channel.right.queueLimit), senders: senders,
            awaited: awaited)
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

    /// The last counts of senders in other processes.
    fileprivate var sentCounts: [Incarnation: Int] { state.withLock { $0.counts.sent } }

    /// The loops that have the port, and the modes.
    var places: [(loop: ThreadRunLoop, modes: [ThreadRunLoop.Mode])] { state.withLock { $0.source }?.places ?? [] }
}
