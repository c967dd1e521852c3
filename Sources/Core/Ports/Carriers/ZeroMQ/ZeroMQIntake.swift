import ZeroMQ

/// The receiving end of ZeroMQ at a port: the socket, which brings the frames of other processes, and the bell of the
/// port's own runtime. The port's lock guards it.
///
/// The socket's descriptor is edge-triggered: it reports nothing between the first frame and a check that finds none.
struct ZeroMQIntake: ~Copyable {
    enum Kind {
        case message
        /// The question whether everything before it was taken.
        case drainProbe
        /// A frame of a message of several frames. This library sends no such message.
        case part
    }

    /// Nil after the port's end.
    private var socket: ZeroMQSocket?
    /// The runtime's mark, which tells its bells from other frames.
    private let mark: UInt32
    /// A frame that was received to see whether there is one.
    private var held: Frame?
    /// Whether the descriptor reports the next frame, because the last check has found none.
    private var isSilent = false
    /// Whether the rest of a message of several frames follows.
    private var isSkipping = false
    /// Whether other processes can send. Without them the socket has one connection, the bell's.
    private var hasPeers = false

    init(_ socket: consuming ZeroMQSocket, mark: UInt32) {
        self.socket = consume socket
        self.mark = mark
    }

    /// Lets other processes connect to a socket that listens.
    mutating func bind(_ descriptor: Int32, _ path: String) throws(PortError) {
        try zeroMQ { () throws(ZeroMQError) in
            try socket?.set(.useDescriptor(descriptor))
            try socket?.bind("ipc://\(path)")
        }
        hasPeers = true
    }

    /// Takes the next frame. The caller asks for its kind.
    /// - Parameter isReported: Whether the descriptor may have reported something since the last check.
    mutating func next(_ isReported: Bool) -> Frame? {
        if let held = held.take() { return held }
        if isSilent, !isReported { return nil }
        // The bell's connection keeps one frame, read or not, and the descriptor reports the next one in any case.
        guard hasPeers else {
            isSilent = (try? socket?.events()) != nil
            return nil
        }
        var frame = Frame()
        repeat {
            isSilent = (try? socket?.receive(&frame)) != true
            if isSilent { return nil }
        } while OwnBell.sent(frame, mark)
        return frame
    }

    /// The kind of the frame that was just taken.
    mutating func kind(of frame: borrowing Frame) -> Kind {
        if isSkipping || frame.isFollowed {
            isSkipping = frame.isFollowed
            return .part
        }
        return frame.isDrainProbe ? .drainProbe : .message
    }

    /// Takes the next frame if it is a message.
    mutating func nextMessage(_ isReported: Bool) -> Frame? { next(isReported, isProbe: false) }

    /// Takes the next frame if it is a drain probe.
    mutating func nextProbe() -> Frame? { next(true, isProbe: true) }

    private mutating func next(_ isReported: Bool, isProbe: Bool) -> Frame? {
        guard !isSkipping, let frame = next(isReported) else { return nil }
        if !frame.isFollowed, frame.isDrainProbe == isProbe { return frame }
        held = consume frame
        return nil
    }

    /// Whether the next frame is none that ``nextMessage(_:)`` takes.
    var holdsOther: Bool { held != nil || isSkipping }

    /// Whether a frame waits.
    mutating func hasFrame(_ isReported: Bool = true) -> Bool {
        held = next(isReported)
        return held != nil
    }

    /// Whether no frame waits. Silences the descriptor until the next frame.
    mutating func isEmpty() -> Bool {
        guard hasFrame() else { return true }
        // A further sender makes the descriptor readable again.
        _ = try? socket?.events()
        return false
    }

    /// Takes nothing more, whatever waits.
    mutating func end() { hasPeers = false }

    /// The socket's descriptor.
    func watchedDescriptor() throws(PortError) -> Int32 {
        guard let descriptor = try socket?.watchedDescriptor() else { throw .isEnding }
        return descriptor
    }

    /// The socket, to be closed.
    mutating func takeSocket() -> ZeroMQSocket? { socket.take() }

    /// Takes nothing more.
    /// - Returns: What has the socket, to be closed.
    mutating func close() -> ZeroMQIntake? {
        guard let socket = socket.take() else { return nil }
        return ZeroMQIntake(socket, mark: mark)
    }
}
