import ZeroMQ

/// The next message of a port: messages of its own runtime come from a list, and frames of other processes from a
/// socket.
///
/// While both have messages, they take turns of ``turn`` messages, so that neither starves the other.
struct Arrivals: ~Copyable {
    enum Next: ~Copyable {
        case local(LocalMessage)
        case frame(ZeroMQFrame)
        case nothing
    }

    private let queue: LocalQueue
    /// The runtime's mark, which tells its bells from other frames.
    private let mark: UInt32
    /// Messages that were taken off the list. All takers share them, also a nested run of a loop in a handler.
    private var batch = LocalQueue.Batch()
    /// A frame that was taken to see whether the socket has one.
    private var heldFrame: ZeroMQFrame?
    /// Whether the socket's descriptor reports the next frame, because the last check of the socket has found none.
    private var isSilent = false
    /// Whether other processes can send. Without them the socket has one connection, the bell's.
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
    ///   - socket: The port's socket; nil after its end.
    ///   - isReported: False when the descriptor has reported nothing since the last check of the socket.
    ///   - makesRoom: Set when the senders that wait for room have to be woken.
    /// - Returns: `nothing` when the list is closed and the socket is empty. Then the next message wakes the takers.
    mutating func next(_ socket: borrowing ZeroMQSocket?, isReported: Bool = true, makesRoom: inout Bool) -> Next {
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

    /// Takes the next message that was taken off the list before.
    mutating func nextOfBatch(makesRoom: inout Bool) -> LocalMessage? {
        guard let message = batch.popFirst() else { return nil }
        makesRoom = queue.noteTaken()
        return message
    }

    /// Takes the next frame of a peer that is a whole message, if it is the peers' turn.
    ///
    /// - Parameters:
    ///   - socket: The port's socket; nil after its end.
    ///   - isReported: Set to false after a check of the socket that has found nothing.
    mutating func nextOfPeers(_ socket: borrowing ZeroMQSocket?, isReported: inout Bool) -> ZeroMQFrame? {
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

    private mutating func nextFrame(_ socket: borrowing ZeroMQSocket?, _ isReported: Bool = true) -> ZeroMQFrame? {
        if let held = heldFrame.take() { return held }
        if isSilent, !isReported { return nil }
        // The bell's connection keeps one frame, read or not, and the descriptor reports the next one in any case.
        guard hasPeers else {
            isSilent = (try? socket?.events()) != nil
            return nil
        }
        var frame = ZeroMQFrame()
        repeat {
            isSilent = (try? socket?.receive(&frame)) != true
            if isSilent { return nil }
        } while Wire.isBell(frame, mark)
        return frame
    }

    /// Whether nothing waits, so that the open list and the socket's descriptor report the next message.
    ///
    /// - Parameters:
    ///   - socket: The port's socket; nil after its end.
    ///   - isReported: Whether the descriptor has reported something since the last check of the socket. Set to false.
    mutating func hasNothing(_ socket: borrowing ZeroMQSocket?, isReported: inout Bool) -> Bool {
        guard batch.isEmpty, !queue.hasMessages else { return false }
        heldFrame = nextFrame(socket, isReported)
        isReported = false
        return heldFrame == nil
    }

    /// Whether a message waits. If not, the list is closed, and the next message wakes the takers.
    mutating func hasMore(_ socket: borrowing ZeroMQSocket?) -> Bool {
        while batch.isEmpty, heldFrame == nil {
            batch = queue.takeAll()
            if !batch.isEmpty { break }
            heldFrame = nextFrame(socket)
            if heldFrame == nil, queue.close() { return false }
        }
        return true
    }

    /// Takes the next frame if it is a drain probe.
    mutating func nextProbe(_ socket: borrowing ZeroMQSocket?) -> ZeroMQFrame? { nextFrame(socket, isProbe: true) }

    /// Takes the next frame if it is a whole message, and a drain probe or not, as asked.
    private mutating func nextFrame(_ socket: borrowing ZeroMQSocket?, _ isReported: Bool = true, isProbe: Bool)
        -> ZeroMQFrame?
    {
        guard let frame = nextFrame(socket, isReported) else { return nil }
        if !frame.isFollowed, Wire.isDrainProbe(frame) == isProbe { return frame }
        heldFrame = consume frame
        return nil
    }

    /// Whether no message waits. Silences the socket's descriptor until the next message.
    mutating func isEmpty(_ socket: borrowing ZeroMQSocket?) -> Bool {
        // The bells are read first, because the messages that a bell announces are on the list by then.
        heldFrame = nextFrame(socket)
        // A further sender makes the descriptor readable again.
        if heldFrame != nil { _ = try? socket?.events() }
        return heldFrame == nil && queue.isEmpty
    }
}
