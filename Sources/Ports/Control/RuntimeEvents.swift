/// A right to a port of another process: the address of the process, and whether somebody waits for the port's end.
typealias PeerRight = (port: PortID, address: ControlAddress, isWatched: Bool)

/// The runtime, as control connections and channels use it. All calls come with no lock held. Calls of control
/// connections come on the housekeeping thread.
protocol RuntimeEvents: AnyObject, Sendable {
    /// - Parameter descriptors: The descriptors that came with the packet.
    func received(_ message: ControlMessage, _ descriptors: [OwnedDescriptor], from peer: ControlConnection)
    func processDied(_ address: ControlAddress)
    /// A control connection was made. These ports have credit to return, to this peer or to others.
    func connectionBegan(_ peer: ControlConnection, owing ports: Set<UInt64>)
    /// A control connection has ended; its process may be alive.
    func connectionEnded(_ peer: ControlConnection, isLast: Bool)
    /// A port that this runtime has a right to, or one of its own, is invalid.
    func channelBecameInvalid(_ port: PortID)
    /// A notice about a request inside the runtime, in the form that a peer would send.
    func received(_ message: ControlMessage, from incarnation: Incarnation)
    /// A port of this runtime has refused a request.
    func requestRefused(_ number: UInt64, of asker: Incarnation)

    /// Whether a process may be alive though the address of its control socket leads nowhere.
    func mayBeAlive(_ address: ControlAddress) -> Bool
    func rights(to peer: Incarnation) -> [PeerRight]
}
