import Ports
import TypedPorts

/// Sees the messages that one end of a session sends, and the calls of its handlers.
protocol SessionObserver: Sendable {
    /// A message is about to be sent.
    /// - Returns: An object that is told the end: the reply, an error, or that a message without a reply is on its way.
    func sending() -> any AskedRequestObserver
    /// Calls a handler.
    /// - Parameter component: The index of the message's component that may be the context of the sender.
    func handling(_ message: MachPort.Message, context component: Int, _ handler: () -> Void)
}
