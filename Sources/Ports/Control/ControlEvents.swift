/// What control connections report to the floors above, and ask of them. The housekeeping thread makes all calls, with
/// no lock held.
protocol ControlEvents: AnyObject, Sendable {
    // MARK: What a peer has said

    /// A port of the peer is invalid.
    func portBecameInvalid(_ port: PortID)
    /// A request of this runtime gets no reply from the peer.
    func requestUnanswered(_ request: UInt64, by peer: Incarnation)
    /// A port of the peer has taken so many bytes of this runtime's messages.
    func creditReturned(_ bytes: Int, by port: PortID)
    /// A port of the peer has taken everything that came before a drain probe of this runtime.
    func portDrained(_ port: PortID, probe: UInt64)
    /// The peer has sent so many messages to a port of this runtime.
    func peerSent(_ count: Int, to number: UInt64, by peer: Incarnation, _ control: ControlConnections)
    /// The peer asks for the statistics of a port of this runtime. The answer is nil when there is no such port.
    func collectStatistics(
        of number: UInt64, _ control: ControlConnections, _ answer: @escaping @Sendable (PortStatistics?) -> Void)
    /// The peer has answered a statistics query of this runtime.
    func statisticsAnswered(_ query: UInt64, _ statistics: PortStatistics, by peer: Incarnation)

    // MARK: What has happened to connections and processes

    /// The process at the address is dead.
    func processDied(_ address: ControlAddress)
    /// A control connection has ended; its process may be alive.
    func connectionEnded(_ peer: Incarnation, isLast: Bool)

    // MARK: What connections need to know

    /// Whether a process may be alive though an address of its control socket leads nowhere.
    func mayBeAlive(_ peer: Incarnation) -> Bool
    /// Whether a port of this runtime is valid.
    func isValid(port number: UInt64) -> Bool
    /// How many messages this runtime has sent to a port of the peer.
    func sentCount(to port: PortID) -> Int
    /// The ports of a process whose end somebody in this runtime wants to know.
    func watchedPorts(of peer: Incarnation) -> [PortID]
    /// The addresses that rights to a process's ports name.
    func addresses(of peer: Incarnation) -> Set<ControlAddress>
    /// Whether there are rights to ports of the process at the address.
    func hasRights(to address: ControlAddress) -> Bool
}
