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
    /// A port of this runtime is another process's now.
    func ownPortHasMoved(_ number: UInt64)
    /// A request of this runtime goes to another home, to which its port has moved before it was sent.
    func requestReaddressed(_ request: UInt64, to home: PortID)
    /// A notice about a request inside the runtime, in the form that a peer would send.
    func received(_ message: ControlMessage, from incarnation: Incarnation)
    /// A port of this runtime has refused a request.
    func requestRefused(_ number: UInt64, of asker: Incarnation)

    /// Whether a process may be alive though the address of its control socket leads nowhere.
    func mayBeAlive(_ address: ControlAddress, _ former: FormerPeer?) -> Bool
    /// Says whether the directory in which a peer listens now is still there; nil when none is known.
    func place(of peer: Incarnation) -> (@Sendable () -> Bool)?
    func rights(to peer: Incarnation) -> [PeerRight]

    /// The home of a port that this runtime does not have; nil when it has ended, or the directory cannot be read.
    /// - Parameter directory: The path of the port's registry directory.
    func home(of port: PortID, in directory: String) -> PortID?
    /// The place at which a port goes on when its owner at `address` does not have it any more; nil when it has ended.
    /// - Parameters:
    ///   - directory: The path of the port's registry directory.
    ///   - ownerDied: Whether that owner has ended. Then a move from there that nobody has decided is over.
    /// - Throws: ``PortError`` when the directory cannot be read now.
    func nextHome(
        of port: PortID, after address: PortID, in directory: String, ownerDied: Bool
    ) throws(PortError) -> NextHome?
    /// A port that this runtime has lent comes back, as the port with this number.
    /// - Parameter home: The last home of the port that the caller knows.
    /// - Returns: False when the runtime does not wait for it any more.
    /// - Throws: ``PortError`` when the directory cannot be read now.
    func comesBack(_ number: UInt64, from home: PortID) throws(PortError) -> Bool
    /// A port has left this home, or is about to. Its owner lives, unless its end was reported, too.
    /// - Parameter isTold: Whether the owner has said that it has the port no more.
    func portLeft(_ home: PortID, isTold: Bool)
}

/// Where a port goes on.
enum NextHome: Equatable {
    /// At an owner to which it has moved.
    case moved(to: PortID)
    /// At the process that had lent it.
    case lender(PortID)
}
