import ZeroMQ

/// The next message of a port: messages of its own runtime come from a list, and those of other processes from lanes, or
/// as frames by ZeroMQ.
///
/// While all have messages, they take turns of ``turn`` messages, so that none starves another.
struct Arrivals: ~Copyable {
    /// The descriptors that have reported something since they were last checked.
    struct Reports: OptionSet {
        let rawValue: UInt8
        static let socket = Reports(rawValue: 1)
        /// The bells of lanes.
        static let bells = Reports(rawValue: 2)
        static let all: Reports = [.socket, .bells]
    }

    enum Next: ~Copyable {
        case local(LocalMessage)
        /// - sender: The kernel's word for a frame of a lane; nil for one of ZeroMQ, which says itself.
        case frame(ZeroMQFrame, sender: MessageSender?)
        case nothing

        var isNothing: Bool {
            switch self {
            case .nothing: true
            case .local: false
            case .frame: false
            }
        }
    }

    private let queue: LocalQueue
    /// Messages that were taken off the list. All takers share them, also a nested run of a loop in a handler.
    private var batch = LocalQueue.Batch()
    var zeroMQ: ZeroMQIntake
    var lanes = LaneIntake()
    var descriptors = DescriptorIntake()
    /// The messages at the front of the batch that have come with a lent port; nil for most ports.
    private var borrowed: BorrowedMessages?
    private var isLocalTurn = true
    private var leftInTurn = Self.turn
    /// The messages of lanes before ZeroMQ has a turn.
    private var leftOfLanes = Self.turn

    private static let turn = 32
    /// Larger messages of lanes are frames, because Swift ends the process when it gets no memory.
    private static let largestPlain = 64 << 10

    init(_ queue: LocalQueue, _ zeroMQ: consuming ZeroMQIntake) {
        self.queue = queue
        self.zeroMQ = zeroMQ
    }

    /// Takes the next message.
    ///
    /// - Parameters:
    ///   - reports: The descriptors that may report something new, without those that the call has checked.
    ///   - makesRoom: Set when the senders that wait for room have to be woken.
    /// - Returns: `nothing` when the list is closed and the socket is empty. Then the next message wakes the takers.
    mutating func next(_ reports: inout Reports, makesRoom: inout Bool) -> Next {
        if zeroMQ.hasPeers { changeTurns() }
        if !isLocalTurn {
            let next = nextOfPeersInTurn(&reports)
            if !next.isNothing { return next }
            isLocalTurn = true
        }
        while true {
            if let message = nextLocal() {
                makesRoom = queue.noteTaken()
                return .local(message)
            }
            let next = nextOfPeersInTurn(&reports)
            if !next.isNothing { return next }
            if queue.close(), lanes.isEmpty || lanes.close() { return .nothing }
        }
    }

    private mutating func nextOfPeersInTurn(_ reports: inout Reports) -> Next {
        if !lanes.isEmpty {
            let next = nextOfLanesInTurn()
            if !next.isNothing { return next }
        }
        if let frame = zeroMQ.next(reports.contains(.socket)) { return .frame(frame, sender: nil) }
        return nextAfterCheck(&reports)
    }

    /// The next message of a lane, now that ZeroMQ has none, after a check of the bells if they have reported something.
    private mutating func nextAfterCheck(_ reports: inout Reports) -> Next {
        if !lanes.isEmpty, reports.contains(.bells) { lanes.hear() }
        reports = []
        return nextOfLanes()
    }

    /// Takes the next message that was taken off the list before.
    mutating func nextOfBatch(makesRoom: inout Bool) -> LocalMessage? {
        guard let message = popOfBatch() else { return nil }
        makesRoom = queue.noteTaken()
        return message
    }

    @inline(__always)
    private mutating func popOfBatch() -> LocalMessage? {
        if borrowed != nil, !batch.isEmpty { noteBorrowedTaken() }
        return batch.popFirst()
    }

    @inline(never)
    private mutating func noteBorrowedTaken() {
        borrowed?.take()
        if borrowed?.left == 0 { borrowed = nil }
    }

    /// Takes the next message of a peer, if it is the peers' turn.
    ///
    /// - Parameter reports: The descriptors that may report something new. Emptied after a check that has found nothing.
    mutating func nextOfPeers(_ reports: inout Reports) -> Next {
        changeTurns()
        guard !isLocalTurn || batch.isEmpty && !queue.hasMessages else { return .nothing }
        if !lanes.isEmpty {
            let next = nextOfLanesInTurn()
            if !next.isNothing { return next }
        }
        if let frame = zeroMQ.nextMessage(reports.contains(.socket)) { return .frame(frame, sender: nil) }
        return zeroMQ.holdsOther ? .nothing : nextAfterCheck(&reports)
    }

    /// Takes the next message that the lender of the port would not get from its lanes. The messages that have come with
    /// the port are first, and count as taken after ``forgetLent()`` only.
    mutating func nextBesideLanes() -> Next {
        if batch.isEmpty { batch = queue.takeAll() }
        if let message = batch.popFirst() {
            _ = queue.noteTaken()
            return .local(message)
        }
        if let frame = zeroMQ.next(true) { return .frame(frame, sender: nil) }
        return .nothing
    }

    /// The port has another owner, which has all messages.
    mutating func forgetLent() {
        borrowed.take()?.takeAll()
        for lane in lanes.leave() { lane.takeRest() }
    }

    /// Puts messages in front of all others, when nothing else waits that was taken off the list.
    mutating func putBack(_ messages: [LocalMessage]) {
        queue.readmit(messages.count)
        for message in messages.reversed() { batch.prepend(message) }
        // Peers have their turn after these messages, some of which may be their earlier ones.
        let left = isLocalTurn ? max(leftInTurn, 0) : 0
        (isLocalTurn, leftInTurn) = (true, 2 * messages.count + Self.turn + left)
    }

    /// The messages that were put in front have come with a lent port.
    mutating func noteBorrowed(_ count: Int, _ taken: TakenCount) {
        if count > 0 { borrowed = BorrowedMessages(count, taken) }
    }

    /// Leaves to the lender what is in the lanes, and what has come with the port.
    mutating func leaveToLender() -> (messages: [LocalMessage], lanes: [LaneReceiver]) {
        var messages: [LocalMessage] = []
        for _ in 0..<(borrowed.take()?.left ?? 0) {
            guard let message = batch.popFirst() else { break }
            messages.append(message)
            _ = queue.noteTaken()
        }
        return (messages, lanes.leave())
    }

    /// Takes nothing more of peers, whatever waits.
    mutating func endPeers() {
        zeroMQ.end()
        lanes.end()
    }

    private mutating func changeTurns() {
        leftInTurn -= 1
        if leftInTurn > 0 { return }
        leftInTurn = Self.turn
        isLocalTurn.toggle()
    }

    private mutating func nextLocal() -> LocalMessage? {
        if batch.isEmpty { batch = queue.takeAll() }
        return popOfBatch()
    }

    // MARK: Lanes

    /// The next message of a lane, unless it is ZeroMQ's turn. Lanes that were stopped are emptied first.
    @inline(__always)
    private mutating func nextOfLanesInTurn() -> Next {
        leftOfLanes -= 1
        if leftOfLanes > 0 || lanes.haveStoppedRecords {
            let next = nextOfLanes()
            if !next.isNothing { return next }
        }
        leftOfLanes = Self.turn
        lanes.endRow()
        return .nothing
    }

    private mutating func nextOfLanes() -> Next {
        guard let (lane, record) = lanes.look() else { return .nothing }
        if let message = plainMessage(record, of: lane) { return .local(message) }
        // Any other record is a frame, whose bytes are checked after they were copied.
        if let frame = lane.takeFrame(record) { return .frame(frame, sender: lane.sender) }
        lanes.block(lane)
        return .nothing
    }

    /// Takes a record that is a message of one component of bytes, without a right to reply. Most messages are.
    @inline(__always)
    private func plainMessage(_ record: LaneReceiver.Record, of lane: LaneReceiver) -> LocalMessage? {
        let bytes = record.bytes
        guard record.kind == LaneMemory.Kind.message,
            (Wire.plainHeaderSize...Self.largestPlain).contains(bytes.count), let start = bytes.baseAddress
        else { return nil }
        // One copy of the header is checked. The bytes behind it may change, and nothing of them is believed.
        let header = Wire.PlainHeader(copying: start)
        guard header.isPlain(frameSize: bytes.count) else { return nil }
        let body = UnsafeRawBufferPointer(rebasing: bytes[Wire.plainHeaderSize...])
        let message = LocalMessage(
            id: header.id, bytes: body.bytes, replyRight: nil, size: UInt32(bytes.count), sender: lane.sender,
            from: queue.pool)
        lane.take(record, size: bytes.count)
        return message
    }

    // MARK: Checks

    /// Whether nothing waits, so that the open list and the descriptors report the next message.
    ///
    /// - Parameter reports: The descriptors that may report something new. Emptied.
    mutating func hasNothing(_ reports: inout Reports) -> Bool {
        guard batch.isEmpty, !queue.hasMessages else { return false }
        let hasFrame = zeroMQ.hasFrame(reports.contains(.socket))
        if !lanes.isEmpty, reports.contains(.bells) { lanes.hear() }
        reports = []
        return !hasFrame && (lanes.isEmpty || !lanes.hasRecords)
    }

    /// Whether a message waits at the open list or in an open lane, as a loop that polls sees it.
    var hasMessages: Bool { queue.hasMessages || lanes.hasRecords }

    /// Whether a message waits. If not, the list is closed, and the next message wakes the takers.
    mutating func hasMore() -> Bool {
        while batch.isEmpty {
            batch = queue.takeAll()
            if !batch.isEmpty || zeroMQ.hasFrame() { break }
            if lanes.isEmpty {
                if queue.close() { return false }
                continue
            }
            lanes.hear()
            if lanes.hasRecords { break }
            if queue.close(), lanes.close() { return false }
        }
        return true
    }

    /// Whether no message waits. Silences the socket's descriptor until the next message.
    mutating func isEmpty() -> Bool {
        // The bells are read first, because the messages that a bell announces are on the list by then.
        let hasFrame = !zeroMQ.isEmpty()
        guard !lanes.isEmpty else { return !hasFrame && queue.isEmpty }
        lanes.hear()
        return !hasFrame && queue.isEmpty && !lanes.hasAnyRecord
    }
}
