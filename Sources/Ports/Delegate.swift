extension MachPort {
    /// Handles a port's messages, as an alternative to a closure. The corresponding protocol is NSPortDelegate.
    public protocol Delegate: AnyObject, Sendable {
        /// Handles a message, on the thread of a loop that the port is scheduled in, or on its queue.
        /// The corresponding method is NSPortDelegate's `handlePortMessage:`.
        func handle(_ message: Message, of port: MachPort)
    }
}
