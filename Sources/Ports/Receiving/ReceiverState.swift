import RunLoops
import ZeroMQ

/// What a receiver's lock guards.
struct ReceiverState: ~Copyable {
    var socket: Socket?
    var handlers: Receiver.Handlers
    weak var source: ThreadRunLoop.Source1?
    /// Whether a message may be waiting that the socket's descriptor does not report any more.
    var mayHaveMore = false
    var lifecycle = ReceiverLifecycle.open(turns: [])
    var waiters: [any Waiter] = []
    /// The dispatch queue that handles messages; one of the waiters.
    var queue: QueueService?
    /// Where other processes can find the port.
    var exposedIn: RegistryDirectory?
    var names: [(directory: RegistryDirectory, name: String)] = []
    var counts = StatisticsCounts()
    var credit: CreditReturns
    /// The rest of a multipart message is skipped. No sender of ours makes one.
    var isSkipping = false
    var malformedCount = 0
}
