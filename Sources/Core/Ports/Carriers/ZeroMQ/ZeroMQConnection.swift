import RunLoops
import ZeroMQ

/// ZeroMQ's way to a port of another process: a socket, and what libzmq does not tell. It does not say whether the owner
/// accepts the connection, whether the connection is lost, and what the port has taken. The channel's lock guards the value.
struct ZeroMQConnection: ~Copyable {
    typealias Socket = ZeroMQSocket

    private var socket: Socket?
    /// The number that the owner gave this process, for frames to the owner.
    private(set) var origin: UInt32 = 0

    // MARK: Acceptance and loss

    /// The sockets that were given up since the owner has last accepted one.
    private var attempts = 0
    /// The time at which the next of them is given up.
    private(set) var acceptDeadline = MonotonicInstant.distantPast
    /// The number of lost connections.
    private(set) var losses = 0
    /// The kernel's connection, once it was looked up, which takes a system call for each descriptor.
    private var connection: LocalSocket.Connection?
    /// The time since which the connection has been missed; nil once it was found.
    private var missedSince: MonotonicInstant?

    /// The drain probe that has no answer yet, and how many messages had been sent before it.
    private(set) var drainProbe: (number: UInt64, sentCount: Int)?

    // MARK: Sending

    var isOpen: Bool { socket != nil }

    /// - Parameter socket: Nil where decisions are tested.
    mutating func open(_ socket: consuming Socket?, origin: UInt32 = 0, at now: MonotonicInstant = .now) {
        self.socket = socket
        self.origin = origin
        acceptDeadline = now + acceptPatience
        (connection, missedSince) = (nil, nil)
    }

    mutating func close() { socket = nil }

    /// Closes the socket. libzmq may use the milliseconds to flush.
    mutating func close(linger milliseconds: Int32) {
        try? socket?.set(.linger(milliseconds))
        socket = nil
    }

    /// Sends a frame if libzmq knows of room. The short way of most frames.
    mutating func sendNow(_ frame: inout Frame) -> Bool { (try? socket?.send(&frame)) == true }

    /// Sends a frame if there is a socket with room.
    /// - Parameter tellsOrigin: Whether the port returns credit.
    mutating func send(_ frame: inout Frame, tellsOrigin: Bool) -> Result<Bool, PortError> {
        if tellsOrigin { frame.setOrigin(origin) }
        do throws(PortError) {
            return .success(try socket?.sendLookingForRoom(&frame) == true)
        } catch {
            return .failure(error)
        }
    }

    /// Whether there is a socket with room, which stays until a frame is sent.
    var hasRoom: Bool { (try? socket?.events().contains(.sendable)) == true }

    /// Reports room, and commands of libzmq; nil without a socket.
    func watchedDescriptor() throws(PortError) -> Int32? { try socket?.watchedDescriptor() }

    // MARK: Acceptance

    /// The time for the owner to accept a connection. libzmq neither retries nor reports a connection that a full
    /// backlog has refused, so the sender makes another socket. But a connection may also wait in the backlog of a slow
    /// or stopped owner, which has to accept each further one, too. So the time doubles with each attempt.
    private var acceptPatience: Duration { .milliseconds(100 << min(attempts, 5)) }

    /// Gives up a socket that the owner has not accepted in time.
    mutating func giveUp() {
        attempts += 1
        socket = nil
    }

    // MARK: Loss

    /// Whether the connection was found open before, and still is.
    var isKnownOpen: Bool { connection?.isOpen == true }

    /// - Returns: The time since which the connection has been missed.
    mutating func miss(at now: MonotonicInstant = .now) -> MonotonicInstant {
        let since = missedSince ?? now
        missedSince = since
        return since
    }

    /// The connection was looked for.
    mutating func note(_ found: LocalSocket.Connection?) {
        connection = found
        if found != nil { missedSince = nil }
    }

    /// The connection is lost with the messages on their way, though the port may live.
    /// - Parameter since: The time of ``miss(at:)``. Another thread may have made another socket since.
    /// - Returns: False for another socket.
    mutating func lose(missedSince since: MonotonicInstant?) -> Bool {
        guard missedSince == since else { return false }
        socket = nil
        (missedSince, drainProbe, attempts) = (nil, nil, 0)
        losses += 1
        return true
    }

    // MARK: Drain probes

    /// Asks the port whether it has taken everything, by a frame behind the last message.
    /// - Returns: False without room.
    mutating func probe(sentCount: Int) -> Bool {
        let number = UInt64.random(in: 0 ... .max)
        guard var frame = try? Frame(drainProbe: number, origin: origin),
            (try? socket?.sendLookingForRoom(&frame)) == true
        else { return false }
        noteProbe(number, sentCount: sentCount)
        return true
    }

    mutating func noteProbe(_ number: UInt64, sentCount: Int) { drainProbe = (number, sentCount) }

    /// Whether a probe behind the last message has no answer yet.
    func isProbed(sentCount: Int) -> Bool { drainProbe?.sentCount == sentCount }

    /// The port has answered a probe. An older one's answer does not cover the last messages.
    /// - Parameter isIdle: Whether the socket may be closed.
    /// - Returns: Whether the port has taken everything, and the socket was closed.
    mutating func drained(_ number: UInt64, sentCount: Int, isIdle: Bool) -> Bool {
        guard let probe = drainProbe, probe == (number, sentCount) else { return false }
        drainProbe = nil
        guard isIdle else { return false }
        socket = nil
        attempts = 0
        return true
    }

    /// The control connection that was to bring the answer to a probe has ended.
    mutating func loseAnswer() { drainProbe = nil }
}

extension Frame {
    fileprivate init(drainProbe number: UInt64, origin: UInt32) throws(ZeroMQError) {
        let header = FrameHeader(kind: .drainProbe, request: number, origin: origin)
        try self.init(count: header.componentsOffset)
        withUnsafeMutableBytes { header.write(to: $0) }
    }
}
