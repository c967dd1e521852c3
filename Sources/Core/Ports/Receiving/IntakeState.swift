/// The state of an intake: where messages wait, who takes them, and what was taken. The port's lock guards the value.
struct IntakeState: ~Copyable {
    var inbox: Inbox
    var handlers: TappedHandlers
    var lifecycle = ReceiverLifecycle()
    /// Whether messages may wait that the socket's descriptor does not report.
    private(set) var mayHaveMore = false
    /// Whether nobody takes, because the port moves.
    private(set) var isPaused = false
    /// The messages that have come with the port from another process.
    private(set) var cameCount = 0
    var totals = PortTotals()

    init(inbox: consuming Inbox, handlers: TappedHandlers) {
        self.inbox = inbox
        self.handlers = handlers
    }

    /// Whether messages are taken, as soon as somebody takes them.
    private var isTaken: Bool { lifecycle.isOpen && !isPaused }

    // MARK: Taking

    struct Taken: ~Copyable {
        var next: Inbox.Next
        var handler: ReceivedMessage.Handler?
        /// Whether no message was known before.
        var isFirst = false
        var makesRoom = false
        /// Whether none waits behind it. Told for the sake of credit alone.
        var isLast = false
        /// Whether a message waits for others, after a check has silenced the descriptor.
        var wakesWaiters = false
        /// Whether loops do not look at the port before the next message.
        var silencesLoop = false
        var lacksMemory = false
    }

    /// - Parameters:
    ///   - needsHandler: Whether to take a message only for a handler.
    ///   - tellsLast: Whether to find out if more messages wait.
    ///   - reports: The descriptors that may report something new, without those that the call has checked.
    ///   - ofDelegate: Set to the handler of a delegate, to be released after the lock.
    mutating func takeNext(
        needsHandler: Bool, tellsLast: Bool, _ reports: inout Inbox.Reports,
        ofDelegate: inout ReceivedMessage.Handler?
    ) -> Taken {
        var handler = needsHandler ? handlers.current.message : handlers.taken
        if handler == nil, needsHandler, let makeHandler = handlers.current.ofDelegate {
            ofDelegate = makeHandler()
            handler = ofDelegate
        }
        guard isTaken, handler != nil || !needsHandler else {
            // Also silences the descriptor of a port that moves, which a loop would look at again and again.
            let isEmpty = looksEmpty() || isPaused
            return Taken(next: .nothing, wakesWaiters: !isEmpty, silencesLoop: true)
        }
        var makesRoom = false
        let next = inbox.next(&reports, makesRoom: &makesRoom)
        if next.isNothing {
            mayHaveMore = false
            return Taken(next: next, silencesLoop: true, lacksMemory: inbox.rings.lacksMemory)
        }
        if next.isOther { return Taken(next: next) }
        let isFirst = !mayHaveMore
        mayHaveMore = true
        totals.taken += 1
        let isLast = tellsLast && inbox.isEmpty()
        return Taken(next: next, handler: handler, isFirst: isFirst, makesRoom: makesRoom, isLast: isLast)
    }

    /// Takes the next message for a handler, unless it may be the first or the last. See ``Intake/takeAtHand(_:_:_:_:)``.
    @inline(__always)
    mutating func takeAtHand(
        _ frame: inout Frame?, _ sender: inout SenderCredentials?, _ reports: inout Inbox.Reports,
        makesRoom: inout Bool
    ) -> LocalMessage? {
        guard mayHaveMore, lifecycle.isOpen, handlers.current.message != nil else { return nil }
        var message: LocalMessage?
        if inbox.mayHavePeers {
            switch inbox.nextOfPeers(&reports) {
            case .local(let plain): message = plain
            case .frame(let found, let ring):
                frame = consume found
                sender = ring
            default: break
            }
        }
        if frame == nil, message == nil {
            message = inbox.nextOfBatch(makesRoom: &makesRoom)
            if message == nil { return nil }
        }
        totals.taken += 1
        return message
    }

    // MARK: Looking

    /// Whether no message waits. The check silences the descriptor, so all takers have to be told if a message waits.
    mutating func looksEmpty() -> Bool {
        let isEmpty = inbox.isEmpty()
        // While the port moves, nobody takes, and those who know of a message would.
        if !isEmpty, !isPaused { mayHaveMore = true }
        return isEmpty
    }

    /// Looks again whether messages wait that the descriptor does not report, if there may be some.
    mutating func checkForMore() -> Bool {
        if mayHaveMore { mayHaveMore = inbox.hasMore() }
        return mayHaveMore
    }

    /// Whether takers have to be told of messages that the descriptor does not report again.
    mutating func findsMore() -> Bool {
        guard isTaken else { return false }
        mayHaveMore = inbox.hasMore()
        return mayHaveMore
    }

    /// Whether takers have to be told of records in open rings.
    mutating func findsRecords() -> Bool {
        guard isTaken, inbox.rings.hasRecords else { return false }
        mayHaveMore = true
        return true
    }

    /// Whether the list and the rings can stay open while the one loop that takes polls, because nothing waits.
    mutating func staysOpen(_ reports: inout Inbox.Reports) -> Bool {
        guard lifecycle.isOpen, mayHaveMore, inbox.hasNothing(&reports) else { return false }
        // The taker of the next message tells the others, because the open list does not.
        mayHaveMore = false
        return true
    }

    /// The next drain probe before which no message waits.
    mutating func nextProbe() -> Frame? { isTaken ? inbox.zeroMQ.nextProbe() : nil }

    /// Whether no message waits behind the probes. One that does has to be told to all takers.
    mutating func isEmptyBehindProbes() -> Bool { !isTaken || looksEmpty() }

    // MARK: Moving

    /// Lets nobody take, until ``takeAgain(with:haveCome:telling:)``.
    mutating func pause() {
        isPaused = true
        // The short way of most messages looks at nothing else.
        mayHaveMore = false
    }

    /// Puts messages in front of all others, and lets takers take again.
    /// - Parameters:
    ///   - haveCome: Whether the messages have come with the port from another process.
    ///   - taken: Where the lender of the port learns how many of them were taken; nil when it is not lent.
    mutating func takeAgain(with messages: [LocalMessage], haveCome: Bool, telling taken: TakenCount?) {
        inbox.putBack(messages)
        if haveCome { cameCount += messages.count }
        if let taken { inbox.noteBorrowed(messages.count, taken) }
        isPaused = false
        mayHaveMore = true
    }
}
