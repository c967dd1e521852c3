import ZeroMQ

/// What a port takes next: messages of its own runtime from a list, and frames of other processes from a socket.
///
/// While both have some, each has its turn of ``turn`` messages, so that neither starves the other.
struct Arrivals: ~Copyable {
    enum Next: ~Copyable {
        case local(LocalMessage)
        case frame(Frame)
        case nothing
    }

    private let queue: LocalQueue
    /// The runtime's mark, which tells its bells from other frames.
    private let mark: UInt32
    /// Messages that were taken off the list. All takers see them, also in a run of a loop inside a handler.
    private var batch = LocalQueue.Batch()
    /// A frame that was taken from the socket to see whether there is one.
    private var heldFrame: Frame?
    /// Whether the socket's descriptor reports the next frame: the last look at the socket has found none.
    private var isSilent = false
    /// Whether other processes can send. Without them the socket has one connection, that of the bell.
    var hasPeers = false
    private var isLocalTurn = true
    private var leftInTurn = Self.turn

    private static let turn = 32

    init(_ queue: LocalQueue, mark: UInt32) {
        self.queue = queue
        self.mark = mark
    }

    /// Takes the next message.
    ///
    /// - Parameters:
    ///   - isReported: False when the descriptor has reported nothing since the last look at the socket.
    ///   - makesRoom: Set when the senders that wait for room are to be woken.
    /// - Returns: Nothing when the list is closed and the socket is empty: then the next message wakes the takers.
    mutating func next(_ socket: borrowing Socket?, isReported: Bool = true, makesRoom: inout Bool) -> Next {
        if hasPeers { changeTurns() }
        if !isLocalTurn {
            if let frame = nextFrame(socket, isReported) { return .frame(frame) }
            isLocalTurn = true
        }
        while true {
            if let message = nextLocal() {
                makesRoom = queue.noteTaken()
                return .local(message)
            }
            if let frame = nextFrame(socket, isReported) { return .frame(frame) }
            if queue.close() { return .nothing }
        }
    }

    /// Takes the next message that is off the list already.
    mutating func nextOfBatch(makesRoom: inout Bool) -> LocalMessage? {
        guard let message = batch.popFirst() else { return nil }
        makesRoom = queue.noteTaken()
        return message
    }

    /// Takes the next frame of a peer that is a whole message, if it is the peers' turn.
    ///
    /// - Parameter isReported: Set to false after a look at the socket that has found nothing.
    mutating func nextOfPeers(_ socket: borrowing Socket?, isReported: inout Bool) -> Frame? {
        changeTurns()
        guard !isLocalTurn || batch.isEmpty && !queue.hasMessages else { return nil }
        let frame = nextFrame(socket, isReported, isProbe: false)
        if frame == nil, heldFrame == nil { isReported = false }
        return frame
    }

    private mutating func changeTurns() {
        leftInTurn -= 1
        if leftInTurn > 0 { return }
        leftInTurn = Self.turn
        isLocalTurn.toggle()
    }

    private mutating func nextLocal() -> LocalMessage? {
        if batch.isEmpty { batch = queue.takeAll() }
        return batch.popFirst()
    }

    private mutating func nextFrame(_ socket: borrowing Socket?, _ isReported: Bool = true) -> Frame? {
        if let held = heldFrame.take() { return held }
        if isSilent, !isReported { return nil }
        // The bell's connection keeps one frame, read or not, and the descriptor reports the next in any case.
        guard hasPeers else {
            isSilent = (try? socket?.events()) != nil
            return nil
        }
        var frame = Frame()
        repeat {
            isSilent = (try? socket?.receive(&frame)) != true
            if isSilent { return nil }
        } while Wire.isBell(frame, mark)
        return frame
    }

    /// Whether nothing waits, so that the open list and the socket's descriptor report what comes next.
    ///
    /// - Parameter isReported: Whether the descriptor has reported something since the last look at the socket.
    mutating func hasNothing(_ socket: borrowing Socket?, isReported: inout Bool) -> Bool {
        guard batch.isEmpty, !queue.hasMessages else { return false }
        heldFrame = nextFrame(socket, isReported)
        isReported = false
        return heldFrame == nil
    }

    /// Whether a message waits. If not, the list is closed, and the next message wakes the takers.
    mutating func hasMore(_ socket: borrowing Socket?) -> Bool {
        while batch.isEmpty, heldFrame == nil {
            batch = queue.takeAll()
            if !batch.isEmpty { break }
            heldFrame = nextFrame(socket)
            if heldFrame == nil, queue.close() { return false }
        }
        return true
    }

    /// Takes the next frame if it is a drain probe.
    mutating func nextProbe(_ socket: borrowing Socket?) -> Frame? { nextFrame(socket, isProbe: true) }

    /// Takes the next frame if it is all of its message, and a drain probe or none.
    private mutating func nextFrame(_ socket: borrowing Socket?, _ isReported: Bool = true, isProbe: Bool) -> Frame? {
        guard let frame = nextFrame(socket, isReported) else { return nil }
        if !frame.isFollowed, Wire.isDrainProbe(frame) == isProbe { return frame }
        heldFrame = consume frame
        return nil
    }

    /// Whether no message waits. Silences the socket's descriptor until the next message.
    mutating func isEmpty(_ socket: borrowing Socket?) -> Bool {
        // The bells first: what they announce is on the list by then.
        heldFrame = nextFrame(socket)
        // A further sender makes the descriptor readable again.
        if heldFrame != nil { _ = try? socket?.events() }
        return heldFrame == nil && queue.isEmpty
    }
}
