import RunLoopLocks
import RunLoops
import Synchronization

/// The receiving end of a port, from which loops, dispatch queues, tasks and threads take messages. ``MachPort`` is its
/// public face.
///
/// The ``Intake`` takes the messages, ``Takers`` are those who ask for them, and by its ``Exposure`` other processes reach
/// the port.
final class Receiver: LocalPort, CountedPort {
    /// The port at this home.
    let id: PortID
    let limits: PortLimits
    /// The messages of this runtime.
    let queue: LocalQueue
    /// The way of this runtime's senders to the port.
    let channel: SendChannel
    let context: ReceiveContext
    let intake: Intake
    let takers: Takers
    let exposure: Exposure
    /// The counts of the port's senders.
    let counts = Lock(StatisticsCounts())
    let invalidated = Promise<Void>()
    /// The requests of a message port that were taken; nil for another port.
    let requests: (any TakenRequests)?
    /// The tasks in a `for await` over the port's messages.
    let iteratingTasks = Atomic(0)
    let inHand = MessageInHand()
    /// The peers that could send by rings, and have said that they send by ZeroMQ.
    let ringless = Lock<Set<Incarnation>>([])
    /// Hands the port over to another process.
    let offer = Lock<(any AnyObject & Sendable)?>(nil)
    /// Nil for most ports, which stay where they were made.
    private let madeArrival = Lock<PortArrival?>(nil)
    /// Whether a call of `receive(before:)` has taken a message, and nobody has asked for another since.
    let isReceiverAway = Atomic(false)

    init(
        _ limits: PortLimits, directoryPath: String, _ context: ReceiveContext, _ requests: (any TakenRequests)? = nil,
        of publicID: PortID? = nil, handlers: PortHandlers = PortHandlers()
    ) throws(PortError) {
        let channels = context.channels
        id = PortID(incarnation: channels.incarnation, number: context.ports.nextNumber())
        let right = try limits.right(id)
        self.limits = PortLimits(of: right)
        let zeroMQ = try channels.sockets.makePull(
            for: id, highWaterMark: Int32(right.queueLimit), messageLimit: right.limit, mark: channels.mark)
        let descriptor = try zeroMQ.watchedDescriptor()
        self.context = context
        self.requests = requests
        queue = LocalQueue(limit: Int(right.queueLimit))
        channel = channels.addOwnChannel(right, of: publicID, queue)
        takers = Takers(channel, descriptor)
        intake = Intake(zeroMQ, queue, byteLimit: right.byteLimit, channel, takers, handlers)
        exposure = Exposure(channel, intake, context.registry, directoryPath: directoryPath)
        channel.localPort = self
        context.ports.add(self)
        if Log.tellsMessages { intake.addTap(MessageLog(channel, requests)) }
    }

    deinit { invalidate() }

    var identity: PortIdentity { channel.identity }
    /// The identity of the port, which stays when the port moves: that of its first home.
    var publicID: PortID { channel.publicID }
    var isValid: Bool { intake.isOpen }

    /// Nil for a port that was made here.
    var arrival: PortArrival? { madeArrival.withLock { $0 } }

    /// The port comes from another process.
    func makeArrival() -> PortArrival {
        madeArrival.withLock { made in
            let arrival = made ?? PortArrival()
            made = arrival
            return arrival
        }
    }

    func setHandlers(_ handlers: PortHandlers) {
        guard !Fork.isChild else { return }
        intake.setHandlers(handlers)
        intake.tellTakersIfAny()
    }

    func onInvalidation(_ handler: @escaping @Sendable () -> Void) {
        if !Fork.isChild { invalidated.whenSet { handler() } }
    }

    // MARK: For the channel

    func expose() throws(PortError) -> String { try exposure.expose() }

    var isServedOnlyHere: Bool { takers.look.isOnlyHere(isHandling: intake.hasTurn) }

    func isServedOnlyHere(outside mode: ThreadRunLoop.Mode) -> Bool {
        let takers = takers.look
        // A loop leaves the messages of a port without a handler to others.
        guard takers.isOnlyHere(isHandling: intake.hasTurn), !takers.hasHadWaiters, intake.hasHandler else {
            return false
        }
        // A block of a dispatch queue has to end before the next one. A foreign loop may run inside this one.
        if let waiter = takers.waiters.first { return waiter is QueueTaker }
        return takers.source.map { !ThreadRunLoop.current.contains($0, forMode: mode) } ?? false
    }

    // MARK: Statistics

    func note(sent count: Int, by sender: Incarnation) { counts.withLock { $0.note(sent: count, by: sender) } }

    func senderDied(_ sender: Incarnation, _ owner: ProcessIdentity) {
        counts.withLock { $0.senderDied(sender, owner) }
    }

    func unaskedSenderDied(_ owner: ProcessIdentity) {
        if !intake.look().isEmpty { counts.withLock { $0.unaskedSenderDied(owner) } }
    }

    func look(isComplete: Bool = true) -> (statistics: PortStatistics, isEmpty: Bool) {
        let look = intake.look()
        let statistics = counts.withLock { counts in
            counts.statistics(
                taken: look.taken, ownSent: look.ownSent, isEmpty: look.isEmpty, now: isComplete ? .now : nil)
        }
        return (statistics, look.isEmpty)
    }
}
