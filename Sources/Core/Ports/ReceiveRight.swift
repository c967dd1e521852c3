extension MachPort {
    /// The right to receive from a port, in a message. The process that claims it has the port from then on, with its
    /// messages, its names and all rights to send to it.
    ///
    ///     func give(_ port: MachPort, to right: MachPort.SendRight) throws {
    ///         try right.send(MachPort.Message(id: 7, [.receiveRight(port)]))
    ///     }
    ///
    ///     func take(_ message: MachPort.Message) throws -> MachPort? {
    ///         try message.receiveRight(ofComponent: 0)?.claim()
    ///     }
    ///
    /// Until then the port goes on where it is, and the message keeps it. A right is claimed once. Any thread may call all
    /// methods. <doc:MovingPorts> says what senders notice, and what happens when a process dies meanwhile.
    public final class ReceiveRight: Sendable {
        /// The right to the port that hands the other one over.
        let offer: SendRight

        init(offer: SendRight) { self.offer = offer }
    }
}

extension MachPort.ReceiveRight: Hashable, CustomStringConvertible {
    /// Whether both are rights to receive from the same port.
    public static func == (left: MachPort.ReceiveRight, right: MachPort.ReceiveRight) -> Bool {
        left.offer == right.offer
    }

    /// Hashes the identity of the port that hands the other one over.
    public func hash(into hasher: inout Hasher) { hasher.combine(offer) }

    /// The owner, as far as it is known.
    public var description: String { "the right to receive from a port of \(offer.identity.ownerText)" }
}
