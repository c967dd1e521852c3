import RunLoops

/// A port of this runtime, as the channel to the port uses it.
protocol LocalPort: AnyObject, Sendable {
    /// Whether only the calling thread takes messages from the port. Such a thread must not wait for room.
    var isServedOnlyHere: Bool { get }
    /// Whether only the calling thread takes messages from the port, and not while its loop runs in the mode. Such a
    /// thread must not wait for the port's reply.
    func isServedOnlyHere(outside mode: ThreadRunLoop.Mode) -> Bool
    /// Lets other processes connect to the port, and returns the registry directory of its socket.
    func expose() throws(PortError) -> String
}
