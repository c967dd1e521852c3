/// The next message of a port: messages of its own runtime come from a list, and those of other processes from rings, or
/// as frames by ZeroMQ.
///
/// While all have messages, they take turns of ``turn`` messages, so that none starves another.
struct Inbox: ~Copyable {
    /// The descriptors that have reported something since they were last checked.
    struct Reports: OptionSet {
        let rawValue: UInt8
        static let socket = Reports(rawValue: 1)
        /// The bells of rings.
        static let bells = Reports(rawValue: 2)
        static let all: Reports = [.socket, .bells]
    }

    enum Next: ~Copyable {
        case local(LocalMessage)
        /// A message of another process, which is not checked yet. Its descriptors were found.
        /// - sender: The kernel's word for a frame of a ring; nil for one of ZeroMQ, which says itself.
        case frame(Frame, sender: SenderCredentials?)
        /// A frame of ZeroMQ that is no message: a drain probe, or a part of something that this library does not send.
        case other(Frame, isProbe: Bool)
        case nothing

        var isNothing: Bool {
            switch self {
            case .nothing: true
            default: false
            }
        }

        var isOther: Bool {
            switch self {
            case .other: true
            default: false
            }
        }
    }

    private let queue: LocalQueue
    /// Messages that were taken off the list. All takers share them, also a nested run of a loop in a handler.
    private var batch = LocalQueue.Batch()
    var zeroMQ: ZeroMQIntake
    var rings = RingIntake()
    var descriptors = DescriptorIntake()
    /// Whether other processes can find the port, and have not been ended.
    var mayHavePeers = false
    /// The messages at the front of the batch that have come with a lent port; nil for most ports.
    private var borrowed: BorrowedMessages?
    private var isLocalTurn = true
    private var leftInTurn = Self.turn
    /// The messages of rings before ZeroMQ has a turn.
    private var leftOfRings = Self.turn

    private static let turn = 32
    /// Larger messages of rings are frames, because Swift ends the process when it gets no memory.
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
        if mayHavePeers { changeTurns() }
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
            if queue.close(), rings.isEmpty || rings.close() { return .nothing }
        }
    }

    private mutating func nextOfPeersInTurn(_ reports: inout Reports) -> Next {
        if !rings.isEmpty {
            let next = nextOfRingsInTurn()
            if !next.isNothing { return next }
        }
        let next = nextOfZeroMQ(reports.contains(.socket))
        return next.isNothing ? nextAfterCheck(&reports) : next
    }

    private mutating func nextOfZeroMQ(_ isReported: Bool) -> Next {
        guard let frame = zeroMQ.next(isReported) else { return .nothing }
        switch zeroMQ.kind(of: frame) {
        case .message: return found(frame, sender: nil)
        case .drainProbe: return .other(frame, isProbe: true)
        case .part: return .other(frame, isProbe: false)
        }
    }

    @inline(__always)
    private mutating func found(_ frame: consuming Frame, sender: SenderCredentials?) -> Next {
        descriptors.find(for: frame)
        return .frame(frame, sender: sender)
    }

    /// The next message of a ring, now that ZeroMQ has none, after a check of the bells if they have reported something.
    private mutating func nextAfterCheck(_ reports: inout Reports) -> Next {
        if !rings.isEmpty, reports.contains(.bells) { rings.hear() }
        reports = []
        return nextOfRings()
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
        if !rings.isEmpty {
            let next = nextOfRingsInTurn()
            if !next.isNothing { return next }
        }
        if let frame = zeroMQ.nextMessage(reports.contains(.socket)) { return found(frame, sender: nil) }
        return zeroMQ.holdsOther ? .nothing : nextAfterCheck(&reports)
    }

    /// Takes the next message that the lender of the port would not get from its rings. The messages that have come with
    /// the port are first, and count as taken after ``forgetLent()`` only.
    mutating func nextBesideRings() -> Next {
        if batch.isEmpty { batch = queue.takeAll() }
        if let message = batch.popFirst() {
            _ = queue.noteTaken()
            return .local(message)
        }
        return nextOfZeroMQ(true)
    }

    /// The port has another owner, which has all messages.
    mutating func forgetLent() {
        borrowed.take()?.takeAll()
        for ring in rings.leave() { ring.takeRest() }
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

    /// Leaves to the lender what is in the rings, and what has come with the port.
    mutating func leaveToLender() -> (messages: [LocalMessage], rings: [RingReceiver]) {
        var messages: [LocalMessage] = []
        for _ in 0..<(borrowed.take()?.left ?? 0) {
            guard let message = batch.popFirst() else { break }
            messages.append(message)
            _ = queue.noteTaken()
        }
        return (messages, rings.leave())
    }

    /// Takes nothing more of peers, whatever waits.
    mutating func endPeers() {
        mayHavePeers = false
        zeroMQ.end()
        rings.end()
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

    // MARK: Rings

    /// The next message of a ring, unless it is ZeroMQ's turn. Rings that were stopped are emptied first.
    @inline(__always)
    private mutating func nextOfRingsInTurn() -> Next {
        leftOfRings -= 1
        if leftOfRings > 0 || rings.haveStoppedRecords {
            let next = nextOfRings()
            if !next.isNothing { return next }
        }
        leftOfRings = Self.turn
        rings.endRow()
        return .nothing
    }

    private mutating func nextOfRings() -> Next {
        guard let (ring, record) = rings.look() else { return .nothing }
        if let message = plainMessage(record, of: ring) { return .local(message) }
        // Any other record is a frame, whose bytes are checked after they were copied.
        if let frame = ring.takeFrame(record) { return found(frame, sender: ring.sender) }
        rings.block(ring)
        return .nothing
    }

    /// Takes a record that is a message of one component of bytes, without a right to reply. Most messages are.
    @inline(__always)
    private func plainMessage(_ record: RingReceiver.Record, of ring: RingReceiver) -> LocalMessage? {
        let bytes = record.bytes
        guard record.kind == RingMemory.Kind.message,
            (Wire.plainHeaderSize...Self.largestPlain).contains(bytes.count), let start = bytes.baseAddress
        else { return nil }
        // One copy of the header is checked. The bytes behind it may change, and nothing of them is believed.
        let header = Wire.PlainHeader(copying: start)
        guard header.isPlain(frameSize: bytes.count) else { return nil }
        let body = UnsafeRawBufferPointer(rebasing: bytes[Wire.plainHeaderSize...])
        let message = LocalMessage(
            id: header.id, bytes: body.bytes, replyRight: nil, size: UInt32(bytes.count), sender: ring.sender,
            from: queue.pool)
        ring.take(record, size: bytes.count)
        return message
    }

    // MARK: Checks

    /// Whether nothing waits, so that the open list and the descriptors report the next message.
    ///
    /// - Parameter reports: The descriptors that may report something new. Emptied.
    mutating func hasNothing(_ reports: inout Reports) -> Bool {
        guard batch.isEmpty, !queue.hasMessages else { return false }
        let hasFrame = zeroMQ.hasFrame(reports.contains(.socket))
        if !rings.isEmpty, reports.contains(.bells) { rings.hear() }
        reports = []
        return !hasFrame && (rings.isEmpty || !rings.hasRecords)
    }

    /// Whether a message waits at the open list or in an open ring, as a loop that polls sees it.
    var hasMessages: Bool { queue.hasMessages || rings.hasRecords }

    /// Whether a message waits. If not, the list is closed, and the next message wakes the takers.
    mutating func hasMore() -> Bool {
        while batch.isEmpty {
            batch = queue.takeAll()
            if !batch.isEmpty || zeroMQ.hasFrame() { break }
            if rings.isEmpty {
                if queue.close() { return false }
                continue
            }
            rings.hear()
            if rings.hasRecords { break }
            if queue.close(), rings.close() { return false }
        }
        return true
    }

    /// Whether no message waits. Silences the socket's descriptor until the next message.
    mutating func isEmpty() -> Bool {
        // The bells are read first, because the messages that a bell announces are on the list by then.
        let hasFrame = !zeroMQ.isEmpty()
        guard !rings.isEmpty else { return !hasFrame && queue.isEmpty }
        rings.hear()
        return !hasFrame && queue.isEmpty && !rings.hasAnyRecord
    }
}
