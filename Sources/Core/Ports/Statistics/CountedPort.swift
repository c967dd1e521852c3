/// A port of this runtime, as the ``StatisticsCollector`` sees it.
protocol CountedPort: AnyObject, Sendable {
    /// A sender in another process has said how many messages it has sent.
    func note(sent count: Int, by sender: Incarnation)
    /// The last connection to a sender has ended that has said it.
    func senderDied(_ sender: Incarnation, _ owner: ProcessIdentity)
    /// The last connection to a process has ended that may have sent messages, and was never asked.
    func unaskedSenderDied(_ owner: ProcessIdentity)
    /// The peers that send by rings.
    var ringPeers: Set<Incarnation> { get }
    /// Notes what the rings of peers tell.
    func noteSentByRings(of peers: Set<Incarnation>)
    /// Takes what waits in a peer's rings, and returns false when it has none.
    @discardableResult
    func takeRing(of peer: Incarnation) -> Bool
    /// The statistics, with the last counts of senders in other processes, and whether the port's own queue is empty.
    /// - Parameter isComplete: Whether all senders have just answered.
    func look(isComplete: Bool) -> (statistics: PortStatistics, isEmpty: Bool)
}
