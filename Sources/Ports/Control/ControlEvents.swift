/// What control connections report to the floors above, and ask of them. The housekeeping thread makes all calls, with
/// no lock held.
protocol ControlEvents: AnyObject, Sendable {
    func received(_ message: ControlMessage, from peer: ControlConnection)
    func processDied(_ address: ControlAddress)
    /// A control connection has ended; its process may be alive.
    func connectionEnded(_ peer: Incarnation, isLast: Bool)

    /// Whether a process may be alive though an address of its control socket leads nowhere.
    func mayBeAlive(_ peer: Incarnation) -> Bool
    /// The ports of a process whose end somebody in this runtime wants to know.
    func watchedPorts(of peer: Incarnation) -> [PortID]
    /// The addresses that rights to a process's ports name.
    func addresses(of peer: Incarnation) -> Set<ControlAddress>
    /// Whether there are rights to ports of the process at the address.
    func hasRights(to address: ControlAddress) -> Bool
}
