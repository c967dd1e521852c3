import ZeroMQ

/// The bell of a port in its own runtime: a socket whose frames make the descriptor of the port's socket readable, when the
/// list of local messages was closed.
struct OwnBell: ~Copyable {
    private var socket: ZeroMQSocket

    /// - Parameter socket: Connected to the port's socket.
    init(_ socket: consuming ZeroMQSocket) { self.socket = socket }

    /// Wakes the takers.
    /// - Parameter mark: The runtime's mark, which tells its bells from other frames.
    mutating func ring(_ mark: UInt32) {
        guard var frame = try? Frame(count: MemoryLayout.size(ofValue: mark)) else { return }
        frame.withUnsafeMutableBytes { $0.setLittle(mark, at: 0) }
        // The socket has no high-water mark. It fails only when the runtime is ending.
        _ = try? socket.send(&frame)
    }

    /// Whether a frame is the bell of the runtime with the mark: no other frame is as short. A bell comes by `inproc`, so it
    /// has no peer address.
    static func sent(_ frame: borrowing Frame, _ mark: UInt32) -> Bool {
        frame.withUnsafeBytes { $0.count == MemoryLayout.size(ofValue: mark) && $0.little(at: 0) == mark }
            && frame.property("Peer-Address") == nil
    }

    /// Closes the sockets of a port. Ends their connection and gives up their address first, because then libzmq ends the
    /// sockets at once, in the order in which they were closed.
    /// - Parameter address: Where the port's socket listens for the bell.
    consuming func close(with pull: consuming ZeroMQSocket, at address: String) {
        try? socket.disconnect(address)
        // libzmq ends a connection in three steps. Each step is a command, which a socket handles when its events are
        // read: the pull socket agrees to the end, the bell confirms, and the pull socket removes the connection.
        _ = try? pull.events()
        _ = try? socket.events()
        _ = try? pull.events()
    }
}
