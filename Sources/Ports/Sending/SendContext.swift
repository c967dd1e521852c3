import Synchronization

/// A port of this runtime, as seen by the channel to the port.
protocol LocalPort: AnyObject, Sendable {
    /// Whether only the calling thread takes messages from the port. Such a thread must not wait for room.
    var isServedOnlyHere: Bool { get }
    /// Lets other processes connect to the port, and returns the registry directory of its socket.
    func expose() throws(PortError) -> String
}

/// What the channels of a runtime share.
final class SendContext: Sendable {
    /// The secret number in this runtime's bells.
    let mark = UInt32.random(in: 1 ... .max)
    let sockets: SocketFactory
    let control: ControlConnectionTable
    let connections: ConnectionCache
    /// The posted frames that wait for room or for a connection to another process. The exit waits for them.
    let postedCount = Atomic(0)
    /// A channel that looks whether its connection is lost asks for all descriptors.
    let connectionLooks = LookLimit()

    init(_ control: ControlConnectionTable, _ sockets: SocketFactory) {
        self.control = control
        self.sockets = sockets
        connections = ConnectionCache(control.housekeeping)
    }

    var incarnation: Incarnation { control.incarnation }
    var housekeeping: Housekeeping { control.housekeeping }
}
