import RunLoops
import ZeroMQ

/// The state of a receiver, which its lock guards.
struct ReceiverState: ~Copyable {
    var socket: Socket?
    var arrivals: Arrivals
    var handlers: Receiver.Handlers
    var tapped: Receiver.Tapped?
    weak var source: ThreadRunLoop.Source1?
    /// Whether messages may wait that the socket's descriptor does not report.
    var mayHaveMore = false
    var lifecycle = ReceiverLifecycle()
    var waiters: [any Waiter] = []
    /// Whether a thread or a task has ever waited for a message: it may come back for the next.
    var hasHadWaiters = false
    /// The dispatch queue that handles messages; one of the waiters.
    var queue: QueueService?
    /// The registry directory with the port's socket; nil until the port is exposed.
    var exposedIn: RegistryDirectory?
    var names = RecentSet<RegisteredName>()
    var counts = StatisticsCounts()
    /// The number of messages that were taken when somebody looked, and since when it has not changed.
    var seen: (taken: Int, since: MonotonicInstant)?
    var credit: CreditReturns
    /// Whether the rest of a multipart message is being skipped. This library sends none.
    var isSkipping = false
    var malformedCount = 0
    /// Whether the housekeeping thread is to look for drain probes.
    var looksForProbes = false

    mutating func add(_ waiter: some Waiter) {
        waiters.append(waiter)
        if !(waiter is any Service) { hasHadWaiters = true }
    }

    /// Whether no message waits. A look silences the descriptor: if there is one, all takers are to be told.
    mutating func looksEmpty() -> Bool {
        let isEmpty = arrivals.isEmpty(socket)
        if !isEmpty { mayHaveMore = true }
        return isEmpty
    }
}
