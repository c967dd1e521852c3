/// A right to another process's port: where the process is said to be, and whether somebody waits for the port's end.
typealias PeerRight = (port: PortID, address: ControlAddress, isWatched: Bool)

/// What control connections and channels report to the runtime, and ask of it. All calls come with no lock held, those of
/// control connections from the housekeeping thread.
protocol RuntimeEvents: AnyObject, Sendable {
    func received(_ message: ControlMessage, from peer: ControlConnection)
    func processDied(_ address: ControlAddress)
    /// There is a new control connection. The ports have credit to return, to this process or others.
    func connectionBegan(_ peer: ControlConnection, owing ports: Set<UInt64>)
    /// A control connection has ended; its process may be alive.
    func connectionEnded(_ peer: ControlConnection, isLast: Bool)
    /// A port that this runtime has a right to, or one of its own, is invalid.
    func channelBecameInvalid(_ port: PortID)
    /// News of requests inside the runtime, as if it had come from a peer.
    func received(_ message: ControlMessage, from incarnation: Incarnation)
    /// A port of this runtime has refused a request.
    func requestRefused(_ number: UInt64, of asker: Incarnation)

    /// Whether a process may be alive though the address of its control socket leads nowhere.
    func mayBeAlive(_ address: ControlAddress) -> Bool
    func rights(to peer: Incarnation) -> [PeerRight]
}
