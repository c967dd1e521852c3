import RunLoops
import Synchronization

/// What channels report to the floors above.
protocol SendEvents: AnyObject, Sendable {
    func channelBecameInvalid(_ port: PortID)
    /// A request to a port of this runtime gets no reply.
    func requestUnanswered(_ request: UInt64, by incarnation: Incarnation)
}

/// A port of this runtime, as seen by the channel to the port.
protocol LocalPort: AnyObject, Sendable {
    /// Whether only the calling thread takes messages from the port. Such a thread must not wait for room.
    var isServedOnlyHere: Bool { get }
    /// Lets other processes connect to the port, and returns the registry directory of its socket.
    func expose() throws(PortError) -> String
}

/// What the channels of a runtime share.
final class SendContext: Sendable {
    let incarnation: Incarnation
    /// The secret number in this runtime's bells.
    let mark = UInt32.random(in: 1 ... .max)
    let sockets: SocketFactory
    let control: ControlConnections
    let connections: ConnectionCache
    let events: any SendEvents
    /// The posted frames that wait for room or for a connection to another process. The exit waits for them.
    let postedCount = Atomic(0)

    init(_ control: ControlConnections, _ sockets: SocketFactory, _ events: any SendEvents) {
        incarnation = control.incarnation
        self.control = control
        self.sockets = sockets
        self.events = events
        connections = ConnectionCache(control.housekeeping)
    }

    var housekeeping: Housekeeping { control.housekeeping }
}
