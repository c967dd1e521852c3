import RunLoops
import Synchronization

/// What the floors above have to know of channels.
protocol SendEvents: AnyObject, Sendable {
    /// The port that a channel leads to is invalid.
    func channelBecameInvalid(_ port: PortID)
    /// A request of this runtime to itself gets no reply.
    func requestUnanswered(_ request: UInt64, by incarnation: Incarnation)
}

/// A port of this runtime, as the channel to it needs it.
protocol LocalPort: AnyObject, Sendable {
    /// Whether only the calling thread's loop, or the queue it works for, takes messages. Then the thread must not wait for
    /// room here.
    var isServedOnlyHere: Bool { get }
    /// Makes the port one that other processes can connect to.
    ///
    /// - Returns: The registry directory in which it is.
    func expose() throws(PortError) -> String
}

/// What the channels of a runtime share.
final class SendContext: Sendable {
    let incarnation: Incarnation
    /// Stands in frames that stay in this runtime, and is known to nobody else.
    let mark = UInt32.random(in: 1 ... .max)
    let sockets: SocketFactory
    let control: ControlConnections
    let connections: ConnectionCache
    let events: any SendEvents
    /// How many posted frames for other processes wait for room or for a connection. Their senders take them for sent.
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
